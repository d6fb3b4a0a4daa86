package android.view;

import android.content.Context;
import android.graphics.Canvas;

/** Test-only stub. */
public class View {
    public static final int VISIBLE = 0;
    public static final int GONE = 8;

    /** Test-only stub. */
    public interface OnClickListener {
        void onClick(View v);
    }

    public View(Context context) {}

    protected void onDraw(Canvas canvas) {}

    public void invalidate() {}

    public final int getWidth() { return 0; }

    public final int getHeight() { return 0; }

    public int getVisibility() { return 0; }

    public void setVisibility(int visibility) {}

    public CharSequence getContentDescription() { return null; }

    public void setContentDescription(CharSequence contentDescription) {}

    public void setOnClickListener(OnClickListener l) {}

    public void setPadding(int left, int top, int right, int bottom) {}

    public boolean getFitsSystemWindows() { return false; }

    public void setFitsSystemWindows(boolean fitSystemWindows) {}
}
