/*
 * A library to preload: system calls that fail, and reads and writes that do less than asked, as the environment says.
 *
 *   JUMPSEAT_FAULTS=CALL:ERRNO:FIRST:STEP:MOST   the FIRST call of CALL fails with this error, and each STEP-th after it, MOST times
 *   JUMPSEAT_FAULTS=short:SEED                   reads and writes are cut to 1 to 7 bytes, or interrupted, half of the time; sockets
 *                                                have the smallest buffers there are
 *   JUMPSEAT_FAULTS_COUNT=FILE                   where the number of faults so far is kept, and of calls of CALL, as two 64-bit numbers
 *
 * Counted from the start of the process that was named; those it starts have none.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char call[32];
static int error;
static unsigned long first, step, most;
static int cutting;
static _Atomic uint64_t random_state;
static _Atomic uint64_t fallback[2];
/* faults, calls */
static _Atomic uint64_t *counts = fallback;

__attribute__((constructor)) static void begin(void)
{
    const char *what = getenv("JUMPSEAT_FAULTS"), *file = getenv("JUMPSEAT_FAULTS_COUNT");
    if (file) {
        int fd = open(file, O_RDWR);
        void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED)
            abort();
        close(fd);
        counts = memory;
    }
    if (!what)
        return;
    unsigned long seed;
    if (sscanf(what, "short:%lu", &seed) == 1) {
        cutting = 1;
        random_state = seed * 0x9e3779b97f4a7c15u | 1;
    } else if (sscanf(what, "%31[^:]:%d:%lu:%lu:%lu", call, &error, &first, &step, &most) != 5) {
        abort();
    }
    unsetenv("JUMPSEAT_FAULTS");
    unsetenv("LD_PRELOAD");
}

/* Whether this call is one to fail. */
static int fails(const char *name)
{
    if (call[0] == 0 || strcmp(name, call) != 0)
        return 0;
    uint64_t nth = atomic_fetch_add(&counts[1], 1) + 1;
    if (nth < first || (nth - first) % (step ? step : 1) != 0 || (nth - first) / (step ? step : 1) >= most)
        return 0;
    atomic_fetch_add(&counts[0], 1);
    return 1;
}

/* Whether the error can be one of this descriptor. */
static int plausible(int fd)
{
    struct stat about;
    if (call[0] == 0 || fstat(fd, &about) != 0)
        return 1;
    /* What has no type is an eventfd, a signalfd or the like: none that does not wait is interrupted, and tokio counts on that. */
    if (error == EINTR)
        return (about.st_mode & S_IFMT) != 0 || !(fcntl(fd, F_GETFL) & O_NONBLOCK);
    return error == EIO || error == ENOSPC || error == EROFS ? S_ISREG(about.st_mode) : S_ISSOCK(about.st_mode);
}

static uint64_t word(void)
{
    uint64_t before = atomic_fetch_add(&random_state, 0x9e3779b97f4a7c15u), z = before;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* How many of these bytes to take; 0 for none, as a signal came. Kinds of descriptors that are read as a whole are left alone. */
static size_t cut(int fd, size_t length)
{
    struct stat about;
    uint64_t chance = word();
    if (!cutting || length < 2 || chance % 2 == 0 || fstat(fd, &about) != 0)
        return length;
    if (!S_ISREG(about.st_mode) && !S_ISSOCK(about.st_mode) && !S_ISFIFO(about.st_mode))
        return length;
    /* There less than asked for says that there is no more, or no room, until epoll(7) tells: sockets have small buffers instead. */
    if (!S_ISREG(about.st_mode) && fcntl(fd, F_GETFL) & O_NONBLOCK)
        return length;
    atomic_fetch_add(&counts[0], 1);
    if (chance % 16 == 1)
        return 0;
    size_t some = 1 + (chance >> 8) % 7;
    return some < length ? some : length;
}

#define REAL(result, name, ...)                                        \
    static result (*real)(__VA_ARGS__);                                \
    if (!real)                                                         \
        real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name);        \
    if (fails(#name)) {                                                \
        errno = error;                                                 \
        return (result)-1;                                             \
    }

/* The same, for a descriptor. */
#define REAL_OF(fd, result, name, ...)                                 \
    static result (*real)(__VA_ARGS__);                                \
    if (!real)                                                         \
        real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name);        \
    if (plausible(fd) && fails(#name)) {                               \
        errno = error;                                                 \
        return (result)-1;                                             \
    }

#define CUT(fd, length)                       \
    size_t asked = length;                    \
    length = cut(fd, length);                 \
    if (asked && !length) {                   \
        errno = EINTR;                        \
        return -1;                            \
    }

ssize_t read(int fd, void *to, size_t n) { REAL_OF(fd, ssize_t, read, int, void *, size_t) CUT(fd, n) return real(fd, to, n); }
ssize_t write(int fd, const void *of, size_t n) { REAL_OF(fd, ssize_t, write, int, const void *, size_t) CUT(fd, n) return real(fd, of, n); }
ssize_t recv(int fd, void *to, size_t n, int flags) { REAL_OF(fd, ssize_t, recv, int, void *, size_t, int) CUT(fd, n) return real(fd, to, n, flags); }
ssize_t send(int fd, const void *of, size_t n, int flags) { REAL_OF(fd, ssize_t, send, int, const void *, size_t, int) CUT(fd, n) return real(fd, of, n, flags); }
ssize_t pread64(int fd, void *to, size_t n, off64_t at) { REAL_OF(fd, ssize_t, pread64, int, void *, size_t, off64_t) CUT(fd, n) return real(fd, to, n, at); }
ssize_t pwrite64(int fd, const void *of, size_t n, off64_t at) { REAL_OF(fd, ssize_t, pwrite64, int, const void *, size_t, off64_t) CUT(fd, n) return real(fd, of, n, at); }

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { REAL_OF(fd, ssize_t, pwritev, int, const struct iovec *, int, off_t) return real(fd, parts, count, at); }

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL_OF(fd, ssize_t, writev, int, const struct iovec *, int)
    size_t length = 0;
    for (int i = 0; i < count; i++)
        length += parts[i].iov_len;
    size_t some = cut(fd, length);
    if (some == length)
        return real(fd, parts, count);
    if (some == 0) {
        errno = EINTR;
        return -1;
    }
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len)
            return write(fd, parts[i].iov_base, parts[i].iov_len < some ? parts[i].iov_len : some);
    return 0;
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
    REAL_OF(fd, ssize_t, readv, int, const struct iovec *, int)
    if (!cutting)
        return real(fd, parts, count);
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len)
            return read(fd, parts[i].iov_base, parts[i].iov_len);
    return 0;
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags) { REAL_OF(fd, ssize_t, recvmsg, int, struct msghdr *, int) return real(fd, m, flags); }
ssize_t sendmsg(int fd, const struct msghdr *m, int flags) { REAL_OF(fd, ssize_t, sendmsg, int, const struct msghdr *, int) return real(fd, m, flags); }
int accept4(int fd, struct sockaddr *a, socklen_t *n, int flags)
{
    REAL(int, accept4, int, struct sockaddr *, socklen_t *, int)
    int conn = real(fd, a, n, flags), least = 1;
    if (cutting && conn >= 0) {
        setsockopt(conn, SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
        setsockopt(conn, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    }
    return conn;
}
int socket(int a, int b, int c) { REAL(int, socket, int, int, int) return real(a, b, c); }
int socketpair(int a, int b, int c, int p[2]) { REAL(int, socketpair, int, int, int, int *) return real(a, b, c, p); }
int bind(int fd, const struct sockaddr *a, socklen_t n) { REAL(int, bind, int, const struct sockaddr *, socklen_t) return real(fd, a, n); }
int listen(int fd, int n) { REAL(int, listen, int, int) return real(fd, n); }
int connect(int fd, const struct sockaddr *a, socklen_t n) { REAL(int, connect, int, const struct sockaddr *, socklen_t) return real(fd, a, n); }
int getpeername(int fd, struct sockaddr *a, socklen_t *n) { REAL(int, getpeername, int, struct sockaddr *, socklen_t *) return real(fd, a, n); }
int getsockname(int fd, struct sockaddr *a, socklen_t *n) { REAL(int, getsockname, int, struct sockaddr *, socklen_t *) return real(fd, a, n); }
int getsockopt(int fd, int l, int o, void *v, socklen_t *n) { REAL(int, getsockopt, int, int, int, void *, socklen_t *) return real(fd, l, o, v, n); }
int setsockopt(int fd, int l, int o, const void *v, socklen_t n) { REAL(int, setsockopt, int, int, int, const void *, socklen_t) return real(fd, l, o, v, n); }
int epoll_create1(int flags) { REAL(int, epoll_create1, int) return real(flags); }
int epoll_ctl(int e, int o, int fd, struct epoll_event *v) { REAL(int, epoll_ctl, int, int, int, struct epoll_event *) return real(e, o, fd, v); }
int epoll_wait(int e, struct epoll_event *v, int n, int t) { REAL(int, epoll_wait, int, struct epoll_event *, int, int) return real(e, v, n, t); }
int poll(struct pollfd *p, nfds_t n, int t) { REAL(int, poll, struct pollfd *, nfds_t, int) return real(p, n, t); }
int eventfd(unsigned n, int flags) { REAL(int, eventfd, unsigned, int) return real(n, flags); }
int inotify_init1(int flags) { REAL(int, inotify_init1, int) return real(flags); }
int inotify_add_watch(int fd, const char *p, uint32_t m) { REAL(int, inotify_add_watch, int, const char *, uint32_t) return real(fd, p, m); }
int fsync(int fd) { REAL(int, fsync, int) return real(fd); }
int fdatasync(int fd) { REAL(int, fdatasync, int) return real(fd); }
int ftruncate64(int fd, off64_t n) { REAL(int, ftruncate64, int, off64_t) return real(fd, n); }
off64_t lseek64(int fd, off64_t n, int w) { REAL(off64_t, lseek64, int, off64_t, int) return real(fd, n, w); }
int rename(const char *a, const char *b) { REAL(int, rename, const char *, const char *) return real(a, b); }
int renameat(int d, const char *a, int e, const char *b) { REAL(int, renameat, int, const char *, int, const char *) return real(d, a, e, b); }
int unlink(const char *a) { REAL(int, unlink, const char *) return real(a); }
int unlinkat(int d, const char *a, int f) { REAL(int, unlinkat, int, const char *, int) return real(d, a, f); }
int mkdir(const char *a, mode_t m) { REAL(int, mkdir, const char *, mode_t) return real(a, m); }
int fchmod(int fd, mode_t m) { REAL(int, fchmod, int, mode_t) return real(fd, m); }
int fchmodat(int d, const char *a, mode_t m, int f) { REAL(int, fchmodat, int, const char *, mode_t, int) return real(d, a, m, f); }
int fchown(int fd, uid_t u, gid_t g) { REAL(int, fchown, int, uid_t, gid_t) return real(fd, u, g); }
int fstat64(int fd, struct stat64 *s) { REAL(int, fstat64, int, struct stat64 *) return real(fd, s); }
int statx(int d, const char *a, int f, unsigned m, struct statx *s) { REAL(int, statx, int, const char *, int, unsigned, struct statx *) return real(d, a, f, m, s); }
int fstatat64(int d, const char *a, struct stat64 *s, int f) { REAL(int, fstatat64, int, const char *, struct stat64 *, int) return real(d, a, s, f); }
int flock(int fd, int o) { REAL(int, flock, int, int) return real(fd, o); }
int shutdown(int fd, int h) { REAL(int, shutdown, int, int) return real(fd, h); }
int pipe2(int p[2], int f) { REAL(int, pipe2, int *, int) return real(p, f); }
int dup2(int a, int b) { REAL(int, dup2, int, int) return real(a, b); }

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    REAL(int, open64, const char *, int, mode_t)
    return real(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    REAL(int, openat, int, const char *, int, mode_t)
    return real(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    REAL(int, openat64, int, const char *, int, mode_t)
    return real(dir, path, flags, mode);
}

/* These tell what is wrong by what they return. */
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *of)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    return fails("pthread_create") ? error : real(t, a, run, of);
}

struct dirent64 *readdir64(DIR *dir)
{
    static struct dirent64 *(*real)(DIR *);
    if (!real)
        real = (struct dirent64 * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir64");
    if (fails("readdir64")) {
        errno = error;
        return NULL;
    }
    return real(dir);
}
