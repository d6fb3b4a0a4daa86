package com.google.ai.edge.litert;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Test-only: holds bytes as the Android class does; nothing is converted. */
public final class TensorBuffer implements AutoCloseable {
    byte[] content = new byte[0];

    private ByteBuffer fresh(int size) {
        content = new byte[size];
        return ByteBuffer.wrap(content).order(ByteOrder.nativeOrder());
    }

    private ByteBuffer held() {
        return ByteBuffer.wrap(content).order(ByteOrder.nativeOrder());
    }

    public void writeFloat(float[] data) throws LiteRtException {
        fresh(4 * data.length).asFloatBuffer().put(data);
    }

    public void writeInt(int[] data) throws LiteRtException {
        fresh(4 * data.length).asIntBuffer().put(data);
    }

    public void writeLong(long[] data) throws LiteRtException {
        fresh(8 * data.length).asLongBuffer().put(data);
    }

    public void writeInt8(byte[] data) throws LiteRtException {
        fresh(data.length).put(data);
    }

    public void writeBoolean(boolean[] data) throws LiteRtException {
        ByteBuffer buffer = fresh(data.length);
        for (boolean value : data) buffer.put((byte) (value ? 1 : 0));
    }

    public float[] readFloat() throws LiteRtException {
        float[] data = new float[content.length / 4];
        held().asFloatBuffer().get(data);
        return data;
    }

    public int[] readInt() throws LiteRtException {
        int[] data = new int[content.length / 4];
        held().asIntBuffer().get(data);
        return data;
    }

    public long[] readLong() throws LiteRtException {
        long[] data = new long[content.length / 8];
        held().asLongBuffer().get(data);
        return data;
    }

    public byte[] readInt8() throws LiteRtException {
        return content.clone();
    }

    public boolean[] readBoolean() throws LiteRtException {
        boolean[] data = new boolean[content.length];
        for (int place = 0; place < data.length; place++) data[place] = content[place] != 0;
        return data;
    }

    @Override
    public void close() {}
}
