package android.widget;

import android.content.Context;
import android.view.View;

/** Test-only stub. */
public class TextView extends View {
    public TextView(Context context) { super(context); }

    public CharSequence getText() { return null; }

    public final void setText(CharSequence text) {}

    public final void setText(int resid) {}

    public float getTextSize() { return 0; }

    public void setTextSize(float size) {}
}
