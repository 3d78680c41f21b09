/* Tells libFuzzer which blocks ran and what was compared, in code that gcc built with ARROWIPC_COVERAGE=1.

   gcc calls a function per block; libFuzzer wants counters. Which counter a block has follows from its
   address: two of some ten thousand blocks may share one. Preloaded, so that every compiled module finds it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define BITS 18
#define COUNTERS (1u << BITS)

static uint8_t counters[COUNTERS];
static struct { uintptr_t address, flags; } blocks[COUNTERS];

void __sanitizer_cov_trace_pc(void) {
    uint64_t address = (uint64_t) __builtin_return_address(0);
    uint8_t *counter = counters + (address * 0x9E3779B97F4A7C15u >> (64 - BITS));
    *counter += *counter != 255;
}

/* Jumps, not calls: libFuzzer looks at the address that it returns to. */
#define COMPARE(name, type)                                                              \
    static void nobody_##name(type a, type b) { (void) a; (void) b; }                    \
    static void (*to_##name)(type, type) = nobody_##name;                                \
    void __sanitizer_cov_trace_##name(type a, type b) { to_##name(a, b); }

COMPARE(cmp1, uint8_t)
COMPARE(cmp2, uint16_t)
COMPARE(cmp4, uint32_t)
COMPARE(cmp8, uint64_t)
COMPARE(const_cmp1, uint8_t)
COMPARE(const_cmp2, uint16_t)
COMPARE(const_cmp4, uint32_t)
COMPARE(const_cmp8, uint64_t)

static void nobody_switch(uint64_t value, void *cases) { (void) value; (void) cases; }
static void (*to_switch)(uint64_t, void *) = nobody_switch;
void __sanitizer_cov_trace_switch(uint64_t value, void *cases) { to_switch(value, cases); }
void __sanitizer_cov_trace_cmpf(float a, float b) { (void) a; (void) b; }
void __sanitizer_cov_trace_cmpd(double a, double b) { (void) a; (void) b; }

#define FORWARD(name) *(void **) &to_##name = dlsym(library, "__sanitizer_cov_trace_" #name)

/* From now on what runs is reported to the libFuzzer in the shared object of this path; 0: it has none. */
int arrowipc_fuzz_attach(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    void (*counters_init)(uint8_t *, uint8_t *) = 0;
    void (*blocks_init)(const uintptr_t *, const uintptr_t *) = 0;
    if (!library) return 0;
    *(void **) &counters_init = dlsym(library, "__sanitizer_cov_8bit_counters_init");
    *(void **) &blocks_init = dlsym(library, "__sanitizer_cov_pcs_init");
    if (!counters_init || !blocks_init) return 0;
    for (uintptr_t i = 0; i < COUNTERS; i++) blocks[i].address = i + 1;
    counters_init(counters, counters + COUNTERS);
    blocks_init((const uintptr_t *) blocks, (const uintptr_t *) (blocks + COUNTERS));
    FORWARD(cmp1); FORWARD(cmp2); FORWARD(cmp4); FORWARD(cmp8);
    FORWARD(const_cmp1); FORWARD(const_cmp2); FORWARD(const_cmp4); FORWARD(const_cmp8);
    FORWARD(switch);
    return 1;
}
