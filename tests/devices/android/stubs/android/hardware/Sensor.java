package android.hardware;

/** Test-only stub. */
public final class Sensor {
    public static final int TYPE_ACCELEROMETER = 1;
    public static final int TYPE_GYROSCOPE = 4;

    public int getType() { return 0; }
}
