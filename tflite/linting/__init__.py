"""The rules of `check`, for Keras models and for .tflite files; `running.py` is the way in."""
