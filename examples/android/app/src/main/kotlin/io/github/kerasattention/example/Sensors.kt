package io.github.kerasattention.example

import android.content.Context
import android.hardware.Sensor
import android.hardware.SensorEvent
import android.hardware.SensorEventListener
import android.hardware.SensorManager

/** The phone's accelerometer and gyroscope as windows of the model. */
class Sensors(context: Context, hop: Int, listener: (FloatArray) -> Unit) : SensorEventListener {
    private val manager = context.getSystemService(Context.SENSOR_SERVICE) as SensorManager
    private val windows = SensorWindows(hop) { window, _ -> listener(window) }

    /** Listen; false where a sensor is missing. */
    fun start(): Boolean {
        val accelerometer = manager.getDefaultSensor(Sensor.TYPE_ACCELEROMETER)
        val gyroscope = manager.getDefaultSensor(Sensor.TYPE_GYROSCOPE)
        if (accelerometer == null || gyroscope == null) return false
        windows.restart()
        manager.registerListener(this, accelerometer, PERIOD_MICROS)
        manager.registerListener(this, gyroscope, PERIOD_MICROS)
        return true
    }

    /** Listen no more. */
    fun stop() = manager.unregisterListener(this)

    override fun onSensorChanged(event: SensorEvent) {
        val values = event.values
        if (event.sensor.type == Sensor.TYPE_ACCELEROMETER) {
            windows.acceleration(event.timestamp, values[0], values[1], values[2])
        } else {
            windows.rotation(event.timestamp, values[0], values[1], values[2])
        }
    }

    override fun onAccuracyChanged(sensor: Sensor, accuracy: Int) {
        // What the model gets does not depend on it.
    }

    private companion object {
        /** Twice as often as the model's 50 a second, which the window then resamples. */
        const val PERIOD_MICROS = 10000
    }
}
