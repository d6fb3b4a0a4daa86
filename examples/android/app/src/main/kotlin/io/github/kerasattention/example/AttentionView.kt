package io.github.kerasattention.example

import android.content.Context
import android.graphics.Canvas
import android.graphics.Color
import android.graphics.Paint
import android.view.View

/** Draws where the model looked: over the seconds of a window, or over the places of a picture. */
class AttentionView(context: Context) : View(context) {
    private val paint = Paint(Paint.ANTI_ALIAS_FLAG)
    private var weights = FloatArray(0)
    private var signal = FloatArray(0)
    private var pixels = IntArray(0)
    private var perRow = 0

    /** Attention over a window, with its acceleration (the first three of six axes) above. */
    fun showSeconds(attention: FloatArray, window: FloatArray) = show(attention, window, IntArray(0), 0)

    /** Attention over a picture of this many pixels a row. */
    fun showPlaces(attention: FloatArray, picture: IntArray, pixelsPerRow: Int) =
        show(attention, FloatArray(0), picture, pixelsPerRow)

    /** Draw nothing. */
    fun clear() = show(FloatArray(0), FloatArray(0), IntArray(0), 0)

    private fun show(attention: FloatArray, window: FloatArray, picture: IntArray, pixelsPerRow: Int) {
        weights = attention
        signal = window
        pixels = picture
        perRow = pixelsPerRow
        contentDescription = describe()
        invalidate()
    }

    override fun onDraw(canvas: Canvas) {
        if (weights.isEmpty()) return
        if (pixels.isEmpty()) drawSeconds(canvas) else drawPlaces(canvas)
    }

    private fun drawSeconds(canvas: Canvas) {
        val wide = getWidth().toFloat() / weights.size
        val bottom = height.toFloat()
        paint.color = Color.rgb(255, 143, 0)
        for (place in weights.indices) {
            val top = bottom - bottom / 2 * share(place)
            canvas.drawRect(place * wide, top, (place + 1) * wide - 1, bottom, paint)
        }
        val samples = signal.size / AXES
        for (axis in COLOURS.indices) {
            paint.color = COLOURS[axis]
            paint.strokeWidth = 4f
            for (sample in 1 until samples) {
                canvas.drawLine(
                    across(sample - 1, samples), up(sample - 1, axis), across(sample, samples), up(sample, axis), paint
                )
            }
        }
    }

    private fun across(sample: Int, samples: Int) = getWidth() * sample / (samples - 1f)

    /** From -2 g at the middle of the view to 2 g at its top. */
    private fun up(sample: Int, axis: Int): Float {
        val value = Math.max(-2f, Math.min(2f, signal[sample * AXES + axis]))
        return height / 4f * (1 - value / 2)
    }

    private fun drawPlaces(canvas: Canvas) {
        val rows = pixels.size / perRow
        val side = Math.min(getWidth().toFloat() / perRow, height.toFloat() / rows)
        for (place in pixels.indices) {
            val left = place % perRow * side
            val top = place / perRow * side
            paint.color = pixels[place]
            canvas.drawRect(left, top, left + side, top + side, paint)
        }
        val columns = Math.round(Math.sqrt(weights.size.toDouble())).toInt()
        val wide = side * perRow / columns
        for (place in weights.indices) {
            val left = place % columns * wide
            val top = place / columns * wide
            paint.color = Color.argb((200 * share(place)).toInt(), 255, 143, 0)
            canvas.drawRect(left, top, left + wide, top + wide, paint)
        }
    }

    private fun share(place: Int): Float {
        val largest = weights.fold(0f) { most, weight -> Math.max(most, weight) }
        return if (largest > 0) Math.max(0f, weights[place]) / largest else 0f
    }

    /** For those who hear the screen: where the most attention lies. */
    private fun describe(): String {
        if (weights.isEmpty()) return ""
        val best = weights.indices.fold(0) { most, place -> if (weights[place] > weights[most]) place else most }
        return "Most attention at ${best + 1} of ${weights.size}"
    }

    private companion object {
        const val AXES = 6
        val COLOURS = intArrayOf(Color.rgb(0, 96, 160), Color.rgb(0, 130, 80), Color.rgb(150, 60, 150))
    }
}
