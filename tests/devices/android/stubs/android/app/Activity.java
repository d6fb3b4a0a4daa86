package android.app;

import android.content.Context;
import android.os.Bundle;
import android.view.View;

/** Test-only stub. */
public class Activity extends Context {
    protected void onCreate(Bundle savedInstanceState) {}

    protected void onResume() {}

    protected void onPause() {}

    protected void onDestroy() {}

    public void setContentView(View view) {}
}
