"""tflite-micro, the runtime of microcontrollers: whether it answers as LiteRT does, and what it needs."""
