package android.hardware;

/** Test-only stub. */
public class SensorEvent {
    public final float[] values = new float[3];
    public Sensor sensor;
    public long timestamp;
}
