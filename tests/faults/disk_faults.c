/* Makes chosen system calls fail, for a broker that is started with this in LD_PRELOAD.
 *
 * OTTLA_DISK_FAULTS names a file with lines "<call> <errno> <path prefix>", where call is read,
 * write or sync. It is looked at again on every call, so that a test can break a disk and mend it
 * while the broker runs. No file means no faults.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int broken(const char *call, int fd)
{
    const char *plan = getenv("OTTLA_DISK_FAULTS");
    char wanted[16], prefix[1024], link[64], path[1024];
    int code, found = 0;
    FILE *file;
    ssize_t length;

    if (plan == NULL || access(plan, F_OK) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    file = fopen(plan, "re");
    if (file == NULL)
        return 0;
    while (!found && fscanf(file, "%15s %d %1023s", wanted, &code, prefix) == 3)
        found = strcmp(wanted, call) == 0 && strncmp(path, prefix, strlen(prefix)) == 0;
    fclose(file);
    errno = found ? code : errno;
    return found;
}

#define WRAP(type, name, call, fd, parameters, arguments)                                          \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
        if (real == NULL)                                                                          \
            real = dlsym(RTLD_NEXT, #name);                                                        \
        return broken(call, fd) ? -1 : real arguments;                                             \
    }

WRAP(ssize_t, pread, "read", fd, (int fd, void *b, size_t n, off_t o), (fd, b, n, o))
WRAP(ssize_t, pread64, "read", fd, (int fd, void *b, size_t n, off64_t o), (fd, b, n, o))
WRAP(ssize_t, preadv, "read", fd, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o))
WRAP(ssize_t, preadv64, "read", fd, (int fd, const struct iovec *v, int n, off64_t o), (fd, v, n, o))
WRAP(ssize_t, preadv2, "read", fd, (int fd, const struct iovec *v, int n, off_t o, int f), (fd, v, n, o, f))
WRAP(ssize_t, preadv64v2, "read", fd, (int fd, const struct iovec *v, int n, off64_t o, int f), (fd, v, n, o, f))
WRAP(ssize_t, sendfile, "read", in, (int out, int in, off_t *o, size_t n), (out, in, o, n))
WRAP(ssize_t, sendfile64, "read", in, (int out, int in, off64_t *o, size_t n), (out, in, o, n))
WRAP(ssize_t, write, "write", fd, (int fd, const void *b, size_t n), (fd, b, n))
WRAP(ssize_t, writev, "write", fd, (int fd, const struct iovec *v, int n), (fd, v, n))
WRAP(ssize_t, pwrite, "write", fd, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
WRAP(ssize_t, pwrite64, "write", fd, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))
WRAP(ssize_t, pwritev, "write", fd, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o))
WRAP(ssize_t, pwritev64, "write", fd, (int fd, const struct iovec *v, int n, off64_t o), (fd, v, n, o))
WRAP(ssize_t, pwritev2, "write", fd, (int fd, const struct iovec *v, int n, off_t o, int f), (fd, v, n, o, f))
WRAP(ssize_t, pwritev64v2, "write", fd, (int fd, const struct iovec *v, int n, off64_t o, int f), (fd, v, n, o, f))
WRAP(int, fsync, "sync", fd, (int fd), (fd))
WRAP(int, fdatasync, "sync", fd, (int fd), (fd))
