package com.google.ai.edge.litert;

import android.content.res.AssetManager;
import host.Child;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Test-only: the part of the Android class that the generated code uses, over a Python child.
 *
 * The properties litert.gpu = "absent" or "wrong" make the GPU one that can't be opened, or whose answers are off.
 */
public final class CompiledModel implements AutoCloseable {
    public static class Options {
        private final List<Accelerator> accelerators;

        public Options(Accelerator... accelerators) {
            this.accelerators = Arrays.asList(accelerators);
        }
    }

    private final Child child;
    private final boolean wrong;

    private CompiledModel(Child child, boolean wrong) {
        this.child = child;
        this.wrong = wrong;
    }

    public static CompiledModel create(
        AssetManager assetManager, String assetName, Options options, Environment optionalEnv) throws LiteRtException {
        String gpu = options.accelerators.contains(Accelerator.GPU) ? System.getProperty("litert.gpu", "") : "";
        if (gpu.equals("absent")) throw new LiteRtException("Failed to compile model");
        return new CompiledModel(new Child(assetManager.path(assetName)), gpu.equals("wrong"));
    }

    public TensorBuffer createInputBuffer(String inputName, String signature) throws LiteRtException {
        return new TensorBuffer();
    }

    public TensorBuffer createOutputBuffer(String outputName, String signature) throws LiteRtException {
        return new TensorBuffer();
    }

    public List<TensorBuffer> createInputBuffers(int signatureIndex) throws LiteRtException {
        return buffers(child.inputs);
    }

    public List<TensorBuffer> createOutputBuffers(int signatureIndex) throws LiteRtException {
        return buffers(child.outputs);
    }

    private static List<TensorBuffer> buffers(int count) {
        List<TensorBuffer> buffers = new ArrayList<>();
        while (buffers.size() < count) buffers.add(new TensorBuffer());
        return buffers;
    }

    public void run(List<TensorBuffer> inputs, List<TensorBuffer> outputs, int signatureIndex) throws LiteRtException {
        run(numbered(inputs), numbered(outputs), (String) null);
    }

    private static Map<String, TensorBuffer> numbered(List<TensorBuffer> buffers) {
        Map<String, TensorBuffer> named = new LinkedHashMap<>();
        for (TensorBuffer buffer : buffers) named.put("" + named.size(), buffer);
        return named;
    }

    public void run(Map<String, TensorBuffer> inputs, Map<String, TensorBuffer> outputs, String signature)
        throws LiteRtException {
        Map<String, byte[]> given = new LinkedHashMap<>();
        for (Map.Entry<String, TensorBuffer> input : inputs.entrySet()) {
            byte[] content = input.getValue().content.clone();
            if (wrong) content[content.length / 2 + 3] ^= 0x40;
            given.put(input.getKey(), content);
        }
        List<String> names = new ArrayList<>(outputs.keySet());
        List<byte[]> found = child.answer(signature, given, names);
        for (int number = 0; number < names.size(); number++) outputs.get(names.get(number)).content = found.get(number);
    }

    @Override
    public void close() {
        child.close();
    }
}
