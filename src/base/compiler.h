/* Compiler features used by the project, each under one name of ours. GNU extensions live here and nowhere else. */
#ifndef KN_BASE_COMPILER_H
#define KN_BASE_COMPILER_H

#define KN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define KN_MUST_USE          __attribute__((warn_unused_result))
#define KN_CLEANUP(fn)       __attribute__((cleanup(fn)))
#define KN_ALIGNED(n)        __attribute__((aligned(n)))
#define KN_NORETURN          __attribute__((noreturn))
#define KN_ALWAYS_INLINE     inline __attribute__((always_inline))
#define KN_TYPE_OF(x)        __typeof__(x)

/* A function for processors that have more than the rest of its file asks for: KN_TARGET("avx2,fma"). */
#define KN_TARGET(features) __attribute__((target(features)))

/* For measurements: somebody unseen reads the memory at p, or a vector register v, and may change it. */
#define KN_USE_MEMORY(p) __asm__ volatile("" : : "r"(p) : "memory")
#if defined(__x86_64__)
#define KN_USE_VECTOR(v) __asm__ volatile("" : "+v"(v))
#else
#define KN_USE_VECTOR(v) __asm__ volatile("" : "+w"(v))
#endif

/* In front of a loop with a small constant count, whose arrays are to become registers. */
#if defined(__clang__)
#define KN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KN_UNROLL _Pragma("GCC unroll 16")
#endif

/* Inside a loop that waits for another thread. */
#if defined(__x86_64__)
#define KN_SPIN_PAUSE() __builtin_ia32_pause()
#else
#define KN_SPIN_PAUSE() ((void)0)
#endif

/* Overflow-checked arithmetic: true when the result does not fit, as the builtins say it. */
#define KN_MUL_OVERFLOWS(a, b, ret) __builtin_mul_overflow(a, b, ret)
#define KN_ADD_OVERFLOWS(a, b, ret) __builtin_add_overflow(a, b, ret)

#define KN_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KN_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define KN_MAX(a, b)    ((a) > (b) ? (a) : (b))

#if defined(__SANITIZE_ADDRESS__)
#define KN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KN_ASAN 1
#endif
#endif
#ifndef KN_ASAN
#define KN_ASAN 0
#endif

#endif
