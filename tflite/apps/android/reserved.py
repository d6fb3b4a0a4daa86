"""Class and package names that mean something in generated sources before a user's file comes along.

A class of the model's package hides what Java and Kotlin import by themselves, and is hidden by what a source
imports by name. `tests/devices/test_android_sources.py` compares with the compilers' own lists, and with the
templates.
"""

from __future__ import annotations

JAVA = frozenset(
    """AbstractMethodError AbstractStringBuilder Appendable ArithmeticException
    ArrayIndexOutOfBoundsException ArrayStoreException AssertionError AutoCloseable Boolean
    BootstrapMethodError Byte CharSequence Character Class ClassCastException ClassCircularityError
    ClassFormatError ClassLoader ClassNotFoundException ClassValue CloneNotSupportedException Cloneable
    Comparable Compiler Deprecated Double Enum EnumConstantNotPresentException Error Exception
    ExceptionInInitializerError Float FunctionalInterface IO IllegalAccessError IllegalAccessException
    IllegalArgumentException IllegalCallerException IllegalMonitorStateException IllegalStateException
    IllegalThreadStateException IncompatibleClassChangeError IndexOutOfBoundsException
    InheritableThreadLocal InstantiationError InstantiationException Integer InternalError
    InterruptedException Iterable LayerInstantiationException LinkageError Long MatchException Math Module
    ModuleLayer NamedPackage NegativeArraySizeException NoClassDefFoundError NoSuchFieldError
    NoSuchFieldException NoSuchMethodError NoSuchMethodException NullPointerException Number
    NumberFormatException Object OutOfMemoryError Override Package Process ProcessBuilder ProcessHandle
    Readable Record ReflectiveOperationException Runnable Runtime RuntimeException RuntimePermission
    SafeVarargs ScopedValue SecurityException SecurityManager Short StableValue StackOverflowError
    StackTraceElement StackWalker StrictMath String StringBuffer StringBuilder
    StringIndexOutOfBoundsException StringTemplate SuppressWarnings System Thread ThreadBuilders
    ThreadDeath ThreadGroup ThreadLocal Throwable TypeNotPresentException UnknownError
    UnsatisfiedLinkError UnsupportedClassVersionError UnsupportedOperationException VerifyError
    VirtualMachineError Void WrongThreadException""".split()
)
"""Classes of java.lang, up to Java 25."""

KOTLIN = frozenset(
    """AbstractCollection AbstractIterator AbstractList AbstractMap AbstractMutableCollection
    AbstractMutableList AbstractMutableMap AbstractMutableSet AbstractSet AccessDeniedException
    AllowDifferentMembersInActual Annotation AnnotationRetention AnnotationTarget Any Array
    ArrayAsCollection ArrayDeque ArrayList ArraysUtilJVM BooleanArray BooleanIterator BuilderInference
    ByteArray ByteIterator Char CharArray CharCategory CharDirectionality CharIterator CharProgression
    CharProgressionIterator CharRange CharacterCodingException Charsets ClosedDoubleRange ClosedFloatRange
    ClosedFloatingPointRange ClosedRange Collection ComparableRange Comparator
    ConcurrentModificationException ConsistentCopyVisibility ConstrainedOnceSequence
    ContextFunctionTypeParams DeepRecursiveFunction DeepRecursiveScope DelimitedRangesSequence
    DeprecationLevel DistinctIterator DistinctSequence DoubleArray DoubleIterator DropSequence
    DropTakeSequence DropWhileSequence DslMarker EmptyIterator EmptyList EmptyMap EmptySequence EmptySet
    Experimental ExperimentalMultiplatform ExperimentalStdlibApi ExperimentalSubclassOptIn
    ExperimentalUnsignedTypes ExperimentalVersionOverloading ExposedCopyVisibility ExtensionFunctionType
    FileAlreadyExistsException FilePathComponents FileSystemException FileTreeWalk FileWalkDirection
    FilteringSequence FlagEnum FlatteningSequence FloatArray FloatIterator Function GeneratorSequence
    Grouping HashMap HashSet HexFormat IgnorableReturnValue ImplicitlyActualizedByJvmDeclaration
    IndexedValue IndexingIterable IndexingIterator IndexingSequence InitializedLazyImpl Int IntArray
    IntIterator IntProgression IntProgressionIterator IntRange IntroducedAt Iterator JvmDefault
    JvmDefaultWithCompatibility JvmDefaultWithoutCompatibility JvmExposeBoxed JvmField JvmInline
    JvmMultifileClass JvmName JvmOverloads JvmPackageName JvmRecord JvmSerializableLambda JvmStatic
    JvmSuppressWildcards JvmSynthetic JvmWildcard KClass KotlinNullPointerException
    KotlinReflectionNotSupportedError KotlinVersion Lazy LazyThreadSafetyMode LinesSequence LinkedHashMap
    LinkedHashSet List ListIterator LongArray LongIterator LongProgression LongProgressionIterator
    LongRange Map MapWithDefault MapWithDefaultImpl MatchGroup MatchGroupCollection
    MatchNamedGroupCollection MatchResult MatcherMatchResult MergingSequence Metadata MovingSubList
    MustBeDocumented MustUseReturnValue MustUseReturnValues MutableCollection MutableIterable
    MutableIterator MutableList MutableListIterator MutableMap MutableMapWithDefault
    MutableMapWithDefaultImpl MutableSet NaturalOrderComparator NoSuchElementException NoSuchFileException
    NoWhenBranchMatchedException NotImplementedError Nothing OnErrorAction OpenEndRange OptIn
    OptionalExpectation OverloadResolutionByLambdaReturnType Pair ParameterName PublishedApi
    PurelyImplements RandomAccess Regex RegexOption Repeatable ReplaceWith RequiresOptIn Result Retention
    ReverseOrderComparator ReversedComparator ReversedList ReversedListReadOnly RingBuffer
    SafePublicationLazyImpl ScreenFloatValueRegEx Sequence SequenceBuilderIterator SequenceScope
    Serializable Set ShortArray ShortIterator SinceKotlin State Strictfp SubSequence SubclassOptInRequired
    Suppress Synchronized SynchronizedLazyImpl SystemProperties TakeSequence TakeWhileSequence Target
    TerminateException Throws TransformingIndexedSequence TransformingSequence Transient Triple
    TypeCastException Typography UByte UByteArray UByteIterator UInt UIntArray UIntIterator
    UIntProgression UIntRange ULong ULongArray ULongIterator ULongProgression ULongRange UShort
    UShortArray UShortIterator UninitializedPropertyAccessException Unit UnsafeLazyImpl UnsafeVariance
    UseExperimental Volatile WasExperimental""".split()
)
"""Other classes of the packages that Kotlin imports by itself, up to Kotlin 2.2."""

SUPPORT = frozenset(
    """ModelRuntime Processor TensorSpec SignatureSpec Classes ClassLabel FloatTensor LongTensor
    SampleWindow Golden GoldenTensor GoldenColumn GoldenSample GoldenAnswer Difference ParityReport
    ParityException ParityCheck ModelAssets InterpreterRuntime CompiledModelRuntime HostRuntime Shapes
    RuntimeOpener GoldenInput GoldenSteps GoldenSeries GoldenWindow""".split()
)
"""Classes that are written beside the model's."""

TEMPLATES = frozenset(
    """Accelerator Arrays Assert AssetManager Assume BufferedInputStream BufferedOutputStream Buffers
    BuildConfig ByteArrayInputStream ByteArrayOutputStream ByteBuffer ByteOrder CRC32 Charset Checked
    Collections Companion CompiledModel DataInputStream DataOutputStream Delegate Environment File Files
    IOException InputStream Interpreter Listener LiteRtException Manifest MessageDigest NaN
    NoSuchAlgorithmException Options R Redirect Sample StandardCharsets TensorBuffer Test TimeUnit
    UncheckedIOException WindowMaker""".split()
)
"""Other classes that the templates import, nest or name, and those that Android's build adds to a package."""

CLASSES = frozenset(name.lower() for name in JAVA | KOTLIN | SUPPORT | TEMPLATES)
"""All of them in lower case: some file systems tell no cases apart."""

PACKAGES = ("java", "javax", "jdk", "sun", "android", "androidx", "dalvik", "kotlin", "kotlinx")
"""First words of packages that belong to the platform or the language."""
LIBRARIES = ("com.android", "com.google.ai.edge.litert", "org.tensorflow.lite", "org.junit")
"""Packages that belong to the platform, the runtimes or the tests."""
