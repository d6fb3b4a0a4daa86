package io.github.kerasattention.example

import org.junit.Assert.assertEquals
import org.junit.Test

class SensorWindowsTest {
    /** A phone at rest says 9.80665 m/s^2 where the watch of the recordings said 1 g. */
    @Test
    fun unitsAndOrderAreThoseOfTheModel() {
        val windows = ArrayList<FloatArray>()
        val sensors = SensorWindows(1) { window, _ -> windows.add(window) }
        for (sample in 0 until 128) {
            val time = sample * 20000000L
            sensors.rotation(time, 0.5f, 0.25f, -0.125f)
            sensors.acceleration(time, 0f, -2 * 9.80665f, 9.80665f)
        }
        assertEquals(1, windows.size)
        for (sample in 0 until 128) {
            val row = windows[0].copyOfRange(6 * sample, 6 * sample + 6)
            assertEquals(listOf(0f, -2f, 1f, 0.5f, 0.25f, -0.125f), row.toList())
        }
    }
}
