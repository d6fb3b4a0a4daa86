package android.content.res;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;

/** Test-only: assets are files of a folder. */
public final class AssetManager {
    private final String folder;

    public AssetManager(String folder) {
        this.folder = folder;
    }

    public InputStream open(String fileName) throws IOException {
        return new FileInputStream(path(fileName));
    }

    public String path(String fileName) {
        return new File(folder, fileName).getPath();
    }
}
