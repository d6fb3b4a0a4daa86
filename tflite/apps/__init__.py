"""Programs around a .tflite file: for Android and for the browser."""
