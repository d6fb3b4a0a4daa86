package io.github.kerasattention.example

import io.github.kerasattention.exercise.ExerciseWindow

/**
 * From what Android's sensors say to windows of the model: units, axes, 50 samples a second.
 *
 * Android gives the acceleration in m/s^2; the model was trained on g. Both have the gyroscope in rad/s.
 */
class SensorWindows(hop: Int, listener: (FloatArray, Long) -> Unit) {
    private val window = ExerciseWindow(
        arrayOf(arrayOf("ax", "ay", "az"), arrayOf("wx", "wy", "wz")), hop, listener = listener
    )

    /** A sample of the accelerometer in m/s^2, at SensorEvent.timestamp. */
    fun acceleration(timeNanos: Long, x: Float, y: Float, z: Float) =
        window.push(0, timeNanos, floatArrayOf(x / STANDARD_GRAVITY, y / STANDARD_GRAVITY, z / STANDARD_GRAVITY))

    /** A sample of the gyroscope in rad/s. */
    fun rotation(timeNanos: Long, x: Float, y: Float, z: Float) = window.push(1, timeNanos, floatArrayOf(x, y, z))

    /** Forget all samples, as after a pause. */
    fun restart() = window.restart()

    companion object {
        /** One g in m/s^2, as SensorManager.STANDARD_GRAVITY. */
        const val STANDARD_GRAVITY = 9.80665f
    }
}
