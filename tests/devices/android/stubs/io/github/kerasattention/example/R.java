package io.github.kerasattention.example;

/** Test-only stub of what Android's tools make from res/. */
public final class R {
    public static final class string {
        public static final int app_name = 1;
        public static final int tab_exercise = 2;
        public static final int tab_digits = 3;
        public static final int starting = 4;
        public static final int waiting = 5;
        public static final int no_sensors = 6;
        public static final int previous = 7;
        public static final int next = 8;
    }
}
