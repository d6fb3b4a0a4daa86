package io.github.kerasattention.example

import android.content.res.AssetManager
import io.github.kerasattention.digit.Digit
import io.github.kerasattention.digit.DigitParity
import io.github.kerasattention.exercise.Exercise
import io.github.kerasattention.exercise.ExerciseParity

/** Both models, opened with their checks. Make it, use it and close it on one thread that is not the main one. */
class Models(assets: AssetManager) : AutoCloseable {
    /** What the checks found, one line for each processor that was tried. */
    val findings = ArrayList<String>()

    private val exercise: Exercise
    private val digit: Digit

    init {
        val forExercise = ExerciseParity.open(
            read(assets, Exercise.GOLDEN_ASSET),
            read(assets, Exercise.ASSET),
            listOf(io.github.kerasattention.exercise.Processor.GPU)
        ) { io.github.kerasattention.exercise.CompiledModelRuntime(assets, Exercise.ASSET, it, null) }
        exercise = forExercise.model
        forExercise.reports.mapTo(findings) { "Exercise: $it" }
        val forDigit = DigitParity.open(
            read(assets, Digit.GOLDEN_ASSET),
            read(assets, Digit.ASSET),
            listOf(io.github.kerasattention.digit.Processor.CPU)
        ) { io.github.kerasattention.digit.CompiledModelRuntime(assets, Digit.ASSET, it, null) }
        digit = forDigit.model
        forDigit.reports.mapTo(findings) { "Digits: $it" }
    }

    /** The exercise in a window, how sure, and how much each stretch of the window counted. */
    fun exercise(window: FloatArray): Answer {
        val found = exercise.serve(window)
        return Answer(found.exercise.label, found.exercise.score, found.attentionMap.values)
    }

    /** The digit in a picture of 8 x 8 pixels, how sure, and how much each place counted. */
    fun digit(pixels: IntArray): Answer {
        val found = digit.servePixels(pixels)
        return Answer(found.label.label, found.label.score, found.attentionMap.values)
    }

    override fun close() {
        exercise.close()
        digit.close()
    }

    private fun read(assets: AssetManager, name: String) =
        io.github.kerasattention.exercise.ModelAssets.read(assets, name)
}

/** What the screen shows. */
class Answer(val label: String, val score: Float, val attention: FloatArray)
