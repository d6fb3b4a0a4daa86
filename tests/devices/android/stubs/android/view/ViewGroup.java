package android.view;

import android.content.Context;

/** Test-only stub. */
public abstract class ViewGroup extends View {
    public ViewGroup(Context context) { super(context); }

    /** Test-only stub. */
    public static class LayoutParams {
        public static final int MATCH_PARENT = -1;
        public static final int WRAP_CONTENT = -2;
    }

    public void addView(View child) {}

    public void addView(View child, LayoutParams params) {}
}
