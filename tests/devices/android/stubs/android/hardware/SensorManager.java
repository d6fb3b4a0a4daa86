package android.hardware;

/** Test-only stub. */
public abstract class SensorManager {
    public Sensor getDefaultSensor(int type) { return null; }

    public boolean registerListener(SensorEventListener listener, Sensor sensor, int samplingPeriodUs) { return true; }

    public void unregisterListener(SensorEventListener listener) {}
}
