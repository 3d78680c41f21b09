/* A stream of the Arrow C stream interface that gives the same array again and again and owns nothing: what a
   consumer's import costs by itself. Only roots are copied; consumers release those, and leave what is below in place. */
#include <stdint.h>

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

static const struct ArrowSchema *schema;
static const struct ArrowArray *array;
static int64_t left;

static void release_schema(struct ArrowSchema *moved) { moved->release = 0; }
static void release_array(struct ArrowArray *moved) { moved->release = 0; }
static void release_stream(struct ArrowArrayStream *stream) { stream->release = 0; }
static const char *get_last_error(struct ArrowArrayStream *stream) { return 0; }

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
    *out = *schema;
    out->release = release_schema;
    return 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    *out = *array;
    out->release = left-- > 0 ? release_array : 0;
    return 0;
}

void begin(struct ArrowArrayStream *out, const struct ArrowSchema *described, const struct ArrowArray *given, int64_t count) {
    struct ArrowArrayStream stream = {get_schema, get_next, get_last_error, release_stream, 0};
    schema = described;
    array = given;
    left = count;
    *out = stream;
}
