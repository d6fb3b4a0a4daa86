#!/bin/sh
# Write the modules exercise/ and digit/ from trained .tflite files. Run it in this folder.
set -e
exercise=${1:?usage: generate.sh EXERCISE.tflite DIGIT.tflite}
digit=${2:?usage: generate.sh EXERCISE.tflite DIGIT.tflite}
keras-attention android "$exercise" -o exercise --class-name Exercise --package io.github.kerasattention.exercise
keras-attention android "$digit" -o digit --class-name Digit --package io.github.kerasattention.digit
