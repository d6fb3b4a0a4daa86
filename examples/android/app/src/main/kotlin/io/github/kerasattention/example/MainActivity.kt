package io.github.kerasattention.example

import android.app.Activity
import android.graphics.BitmapFactory
import android.os.Bundle
import android.os.Handler
import android.os.Looper
import android.view.View
import android.widget.Button
import android.widget.LinearLayout
import android.widget.TextView
import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors

/** Two tabs: the exercise that the sensors see, and the digit in a bundled picture; both with the attention. */
class MainActivity : Activity() {
    private val main = Handler(Looper.getMainLooper())
    private lateinit var worker: ExecutorService
    private lateinit var sensors: Sensors
    private lateinit var status: TextView
    private lateinit var answer: TextView
    private lateinit var attention: AttentionView
    private lateinit var pictures: View
    private var models: Models? = null
    private var showsDigits = false
    private var picture = 0

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(layout())
        worker = Executors.newSingleThreadExecutor()
        sensors = Sensors(this, HOP) { window -> worker.execute { classify(window) } }
        status.setText(R.string.starting)
        worker.execute(this::open)
    }

    override fun onResume() {
        super.onResume()
        if (!showsDigits) start()
    }

    override fun onPause() {
        sensors.stop()
        super.onPause()
    }

    override fun onDestroy() {
        // The models belong to the worker's thread, and are closed after its last call.
        worker.execute { models?.close() }
        worker.shutdown()
        super.onDestroy()
    }

    private fun open() {
        val text = try {
            val opened = Models(assets)
            models = opened
            opened.findings.joinToString("\n")
        } catch (error: Exception) {
            // A model that answers wrongly is not used; the report says which answer differs by how much.
            error.toString()
        }
        main.post { status.text = text }
    }

    private fun classify(window: FloatArray) {
        val found = models?.exercise(window) ?: return
        main.post {
            if (!showsDigits) {
                answer.text = line(found.label, found.score)
                attention.showSeconds(found.attention, window)
            }
        }
    }

    private fun showPicture(number: Int) {
        picture = (number + PICTURES) % PICTURES
        val bitmap = assets.open("digits/$picture.png").use { BitmapFactory.decodeStream(it) }
        val pixels = IntArray(bitmap.width * bitmap.height)
        bitmap.getPixels(pixels, 0, bitmap.width, 0, 0, bitmap.width, bitmap.height)
        worker.execute {
            val found = models?.digit(pixels)
            main.post {
                if (showsDigits && found != null) {
                    answer.text = line(found.label, found.score)
                    attention.showPlaces(found.attention, pixels, bitmap.width)
                }
            }
        }
    }

    private fun start() {
        answer.setText(if (sensors.start()) R.string.waiting else R.string.no_sensors)
    }

    private fun select(digits: Boolean) {
        showsDigits = digits
        attention.clear()
        pictures.visibility = if (digits) View.VISIBLE else View.GONE
        if (digits) {
            sensors.stop()
            showPicture(picture)
        } else {
            start()
        }
    }

    private fun line(label: String, score: Float) = "$label  ${Math.round(score * 100)} %"

    private fun layout(): View {
        status = TextView(this)
        answer = TextView(this).apply { textSize = 28f }
        attention = AttentionView(this)
        pictures = row(
            button(R.string.previous) { showPicture(picture - 1) },
            button(R.string.next) { showPicture(picture + 1) }
        )
        pictures.visibility = View.GONE
        return LinearLayout(this).apply {
            orientation = LinearLayout.VERTICAL
            fitsSystemWindows = true
            setPadding(32, 32, 32, 32)
            addView(row(button(R.string.tab_exercise) { select(false) }, button(R.string.tab_digits) { select(true) }))
            addView(answer)
            addView(attention, LinearLayout.LayoutParams(LinearLayout.LayoutParams.MATCH_PARENT, 0, 1f))
            addView(pictures)
            addView(status)
        }
    }

    private fun row(vararg views: View) = LinearLayout(this).apply {
        for (view in views) addView(view, LinearLayout.LayoutParams(0, LinearLayout.LayoutParams.WRAP_CONTENT, 1f))
    }

    private fun button(text: Int, action: () -> Unit) = Button(this).apply {
        setText(text)
        setOnClickListener { action() }
    }

    private companion object {
        /** Samples from one answer to the next: half a second. */
        const val HOP = 25
        const val PICTURES = 10
    }
}
