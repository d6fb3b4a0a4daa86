package android.widget;

import android.content.Context;

/** Test-only stub. */
public class Button extends TextView {
    public Button(Context context) { super(context); }
}
