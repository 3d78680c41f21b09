/* A library to be preloaded: calls on files fail as the environment says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Fails the call that FAULT names, with FAULT_ERRNO, from its FAULT_AFTER-th time on, for files below
   FAULT_IN; a new FAULT_ROUND counts anew. */
static int hit(const char *call, int fd) {
    static int count, round;
    char link[64], path[4096];
    const char *wanted = getenv("FAULT"), *below = getenv("FAULT_IN");
    if (!wanted || strcmp(wanted, call)) return 0;
    if (round != atoi(getenv("FAULT_ROUND"))) { count = 0; round = atoi(getenv("FAULT_ROUND")); }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    if (strncmp(path, below, strlen(below)) || ++count < atoi(getenv("FAULT_AFTER"))) return 0;
    errno = atoi(getenv("FAULT_ERRNO"));
    return 1;
}
#define REAL(type, name, ...) ((type (*)(__VA_ARGS__)) dlsym(RTLD_NEXT, name))
ssize_t write(int fd, const void *data, size_t size) {
    return hit("write", fd) ? -1 : REAL(ssize_t, "write", int, const void *, size_t)(fd, data, size);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return hit("write", fd) ? -1 : REAL(ssize_t, "writev", int, const struct iovec *, int)(fd, parts, count);
}
int fsync(int fd) { return hit("fsync", fd) ? -1 : REAL(int, "fsync", int)(fd); }
int close(int fd) {
    int failed = hit("close", fd), code = errno, done = REAL(int, "close", int)(fd);
    if (failed) errno = code;
    return failed ? -1 : done;
}
int rename(const char *from, const char *to) {
    const char *wanted = getenv("FAULT");
    if (wanted && !strcmp(wanted, "rename")) { errno = atoi(getenv("FAULT_ERRNO")); return -1; }
    return REAL(int, "rename", const char *, const char *)(from, to);
}
