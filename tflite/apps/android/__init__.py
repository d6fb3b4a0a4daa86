"""Android sources that match one .tflite file."""
