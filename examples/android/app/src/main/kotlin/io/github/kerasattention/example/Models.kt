package io.github.kerasattention.example

import android.content.res.AssetManager
import io.github.kerasattention.digit.CompiledModelRuntime as DigitRuntime
import io.github.kerasattention.digit.Digit
import io.github.kerasattention.digit.DigitParity
import io.github.kerasattention.digit.Processor as DigitProcessor
import io.github.kerasattention.exercise.CompiledModelRuntime as ExerciseRuntime
import io.github.kerasattention.exercise.Exercise
import io.github.kerasattention.exercise.ExerciseParity
import io.github.kerasattention.exercise.ModelAssets
import io.github.kerasattention.exercise.Processor as ExerciseProcessor

/** Both models, opened with their checks. Make it, use it and close it on one thread that is not the main one. */
class Models(private val assets: AssetManager) : AutoCloseable {
    /** What the checks found, one line for each processor that was tried. */
    val findings = ArrayList<String>()

    private val opened = ArrayList<AutoCloseable>()

    private val exercise = open("Exercise", Exercise.GOLDEN_ASSET, Exercise.ASSET) { golden, file ->
        ExerciseParity.open(golden, file, listOf(ExerciseProcessor.GPU)) { ExerciseRuntime(assets, Exercise.ASSET, it) }
            .let { Pair(it.model, it.reports) }
    }

    private val digit = open("Digits", Digit.GOLDEN_ASSET, Digit.ASSET) { golden, file ->
        DigitParity.open(golden, file, listOf(DigitProcessor.CPU)) { DigitRuntime(assets, Digit.ASSET, it) }
            .let { Pair(it.model, it.reports) }
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
        for (model in opened) model.close()
        opened.clear()
    }

    /** Open one model with its check; what was opened before is closed where that fails. */
    private fun <Model : AutoCloseable> open(
        title: String,
        golden: String,
        file: String,
        check: (ByteArray, ByteArray) -> Pair<Model, List<Any>>
    ): Model {
        try {
            val (model, reports) = check(ModelAssets.read(assets, golden), ModelAssets.read(assets, file))
            opened.add(model)
            reports.mapTo(findings) { "$title: $it" }
            return model
        } catch (error: Exception) {
            close()
            throw error
        }
    }
}

/** What the screen shows. */
class Answer(val label: String, val score: Float, val attention: FloatArray)
