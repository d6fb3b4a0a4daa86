package android.widget;

import android.content.Context;
import android.view.ViewGroup;

/** Test-only stub. */
public class LinearLayout extends ViewGroup {
    public static final int VERTICAL = 1;

    public LinearLayout(Context context) { super(context); }

    public int getOrientation() { return 0; }

    public void setOrientation(int orientation) {}

    /** Test-only stub. */
    public static class LayoutParams extends ViewGroup.LayoutParams {
        public LayoutParams(int width, int height, float weight) {}
    }
}
