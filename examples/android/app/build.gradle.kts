plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "io.github.kerasattention.example"
    compileSdk = 36

    defaultConfig {
        applicationId = "io.github.kerasattention.example"
        minSdk = 24
        targetSdk = 36
        versionCode = 1
        versionName = "1.0"
        // The modules offer two runtimes; this app takes CompiledModel.
        missingDimensionStrategy("runtime", "compiledModel")
    }

    androidResources {
        noCompress += "tflite"
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
}

kotlin {
    compilerOptions {
        jvmTarget = org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_17
    }
}

dependencies {
    implementation(project(":exercise"))
    implementation(project(":digit"))
    testImplementation("junit:junit:4.13.2")
}
