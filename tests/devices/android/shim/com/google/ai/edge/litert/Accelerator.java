package com.google.ai.edge.litert;

/** Test-only stand-in. */
public enum Accelerator { NONE, CPU, GPU, NPU }
