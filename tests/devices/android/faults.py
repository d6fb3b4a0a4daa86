"""Faults that are planted in generated sources, in arithmetic that no golden pair shows."""

LANGUAGES = ("kotlin", "java")


def both(text):
    """The same text in both languages."""
    return dict.fromkeys(LANGUAGES, text)


ROUNDING = both("Math.rint(value / scale)")
NOT_FINITE = {
    "kotlin": "require(!value.isNaN() && !value.isInfinite())",
    "java": "if (Float.isNaN(value) || Float.isInfinite(value)) {",
}
TAKEN = {"kotlin": "require(true)", "java": "if (false) {"}
STEPS = r"arithmetic of i0: [-\d.E]+ becomes [-\d.E]+, not "

FAULTS = {
    "Floor": (
        "WindowBytes",
        [
            ("TensorSpec", ROUNDING, both("Math.floor(value / scale)")),
            ("TensorSpec", NOT_FINITE, TAKEN),
            ("SampleWindow", both("- first) * share"), both("- first) * share * 0")),
        ],
        [
            STEPS,
            "arithmetic of i0: NaN is taken; arithmetic of i0: Infinity is taken",
            "windows of i0: number 0, from samples beside the grid at hop 10, is not Python's",
        ],
    ),
    "HalfUp": (
        "WindowBytes",
        [
            ("TensorSpec", ROUNDING, both("Math.floor(value / scale + 0.5)")),
            (
                "SampleWindow",
                {"kotlin": "(point - length) % hop == 0L", "java": "(point - length) % hop == 0"},
                both("point > 0"),
            ),
            ("SampleWindow", NOT_FINITE, TAKEN),
        ],
        [
            r"arithmetic of i0: 0\.0199999995529651\d+ becomes 4\.0, not 3\.0",
            r"windows of i0: number 1, from samples .*windows of i0: \d\d at hop 10, not 5",
            "windows of i0: NaN is taken; windows of i0: Infinity is taken",
        ],
    ),
    "Limits": (
        "PictureSteps",
        [
            ("TensorSpec", both("green * 38470"), both("blue * 38470")),
            (
                "TensorSpec",
                {
                    "kotlin": "Math.max(least.toDouble(), Math.min(most.toDouble(), step)).toInt()",
                    "java": "(int) Math.max(least, Math.min(most, step))",
                },
                {"kotlin": "step.toInt()", "java": "(int) step"},
            ),
        ],
        [STEPS + r"(-128|127)\.0", r"pixels of i0: [0-9a-f]{8} becomes"],
    ),
    "Single": (
        "WindowBytes",
        [
            (
                "TensorSpec",
                ROUNDING,
                {
                    "kotlin": "Math.rint((value / scale.toFloat()).toDouble())",
                    "java": "Math.rint(value / (float) scale)",
                },
            )
        ],
        [STEPS],
    ),
    "Rows": (
        "Tokens",
        [
            (
                "TensorSpec",
                {
                    "kotlin": "require(value.toDouble() >= 0 && value.toDouble() < below)",
                    "java": "if (value.doubleValue() < 0 || value.doubleValue() >= below) {",
                },
                TAKEN,
            )
        ],
        ["arithmetic of i0: -1 is taken; arithmetic of i0: 101 is taken"],
    ),
    "Division": (
        "PictureFloat",
        [
            (
                "TensorSpec",
                both("pixelRange[0] + (pixelRange[1] - pixelRange[0]) * value / 255.0"),
                {"kotlin": "value.toDouble()", "java": "(double) value"},
            ),
            (
                "TensorSpec",
                {
                    "kotlin": "((value - mean[entry]) / std[entry]).toFloat()",
                    "java": "(float) ((value - mean[entry]) / std[entry])",
                },
                {
                    "kotlin": "(value - mean[entry].toFloat()) * (1f / std[entry].toFloat())",
                    "java": "(value - (float) mean[entry]) * (1f / (float) std[entry])",
                },
            ),
        ],
        [
            STEPS,
            r"pixels of i0: ff000000 becomes -?[\d.]+, not -?[\d.]+",
            "o0 of golden pair 0 differs by 0",
        ],
    ),
}
"""Fault -> file, (source, right, wrong) for each change, and what the report must say."""


def plant(folder, language, changes):
    """Change generated sources; each place must be there just once."""
    for name, right, wrong in changes:
        (source,) = folder.rglob(f"{name}.{'kt' if language == 'kotlin' else 'java'}")
        text = source.read_text()
        assert text.count(right[language]) == 1, (name, right[language])
        source.write_text(text.replace(right[language], wrong[language]))
