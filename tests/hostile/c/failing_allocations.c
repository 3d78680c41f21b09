/* An allocator that fails when it is told to: preloaded, it stands in front of the C library's.
 *
 * It looks at who calls. "Ours" is what calls from a mapping that `failing_watch` has named (the compiled modules of
 * arrowipc, with STARVE_ANY the interpreter too). What they take is counted, remembered until somebody frees it,
 * and refused where `failing_arm` says so.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define CALLER ((uintptr_t) __builtin_return_address(0))

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { MOST_RANGES = 1024, PLACES = 1 << 20 };

static struct { uintptr_t start, end; int counted; } ranges[MOST_RANGES];
static int n_ranges;
static volatile long first = 0, last = 0, seen = 0;     /* allocations first..last fail; 0: none does */
static volatile int armed = 0, tracking = 0;
static uintptr_t *places;                               /* what ours hold: open addressing, 1: deleted */
static long n_live;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* 0: a stranger; 1: may fail; 2: may fail, and is one of our modules. */
static int kind_of(uintptr_t caller) {
    for (int i = 0; i < n_ranges; i++)
        if (caller >= ranges[i].start && caller < ranges[i].end)
            return 1 + ranges[i].counted;
    return 0;
}

static int refused(int kind) {
    if (!kind || !armed)
        return 0;
    long n = __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
    if (n < first || n > last)
        return 0;
    errno = ENOMEM;
    return 1;
}

static size_t place_of(uintptr_t address) {
    size_t i = (address >> 4) * 0x9E3779B97F4A7C15ull >> 44;
    while (places[i] && places[i] != address)
        i = (i + 1) & (PLACES - 1);
    return i;
}

static void *kept(void *made, int kind) {
    if (kind == 2 && tracking && made) {
        pthread_mutex_lock(&lock);
        size_t i = place_of((uintptr_t) made);
        if (!places[i]) {
            places[i] = (uintptr_t) made;
            n_live++;
        }
        pthread_mutex_unlock(&lock);
    }
    return made;
}

static void forgotten(void *address) {
    if (!tracking || !address)
        return;
    pthread_mutex_lock(&lock);
    size_t i = place_of((uintptr_t) address);
    if (places[i]) {
        places[i] = 1;      /* no block begins there */
        n_live--;
    }
    pthread_mutex_unlock(&lock);
}

EXPORTED void failing_watch(uintptr_t start, uintptr_t end, int counted) {
    if (n_ranges < MOST_RANGES) {
        ranges[n_ranges].start = start;
        ranges[n_ranges].end = end;
        ranges[n_ranges].counted = counted;
        n_ranges++;
    }
}

EXPORTED void failing_forget_ranges(void) { n_ranges = 0; }

EXPORTED void failing_arm(long from, long to) {
    first = from;
    last = to;
    seen = 0;
    armed = 1;
}

EXPORTED long failing_disarm(void) {
    armed = 0;
    return seen;
}

EXPORTED void failing_track(void) {
    pthread_mutex_lock(&lock);
    if (!places)
        places = __libc_calloc(PLACES, sizeof *places);
    memset(places, 0, PLACES * sizeof *places);
    n_live = 0;
    pthread_mutex_unlock(&lock);
    tracking = places != NULL;
}

EXPORTED long failing_live(void) { return n_live; }

/* The body of a function that allocates: nothing if the caller is refused, else what is made, which is remembered. */
#define ALLOCATED(make) \
    int kind = kind_of(CALLER); \
    return refused(kind) ? NULL : kept(make, kind)

EXPORTED void *malloc(size_t size) { ALLOCATED(__libc_malloc(size)); }

EXPORTED void *calloc(size_t count, size_t size) { ALLOCATED(__libc_calloc(count, size)); }

EXPORTED void *aligned_alloc(size_t alignment, size_t size) { ALLOCATED(__libc_memalign(alignment, size)); }

EXPORTED int posix_memalign(void **out, size_t alignment, size_t size) {
    int kind = kind_of(CALLER);
    void *made = refused(kind) ? NULL : kept(__libc_memalign(alignment, size), kind);
    if (!made)
        return ENOMEM;
    *out = made;
    return 0;
}

EXPORTED void *realloc(void *old, size_t size) {
    int kind = kind_of(CALLER);
    if (refused(kind))
        return NULL;
    forgotten(old);
    void *moved = __libc_realloc(old, size);
    return moved ? kept(moved, kind) : (kept(old, kind), NULL);
}

EXPORTED void free(void *address) {
    int before = errno;
    forgotten(address);
    __libc_free(address);
    errno = before;
}
