/* Shifts the wall clock of a program by the microseconds in a file that is mapped, so that it can be stepped at any time.
   Preloaded. Waits until an instant of the shifted clock are turned back, or they would be as wrong as the clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift;

static int64_t shifted_by(void)
{
    static int looked;
    if (!looked) {
        const char *path = getenv("DIBS_CHAOS_CLOCK");
        looked = 1;
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0) {
            void *page = mmap(0, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
            close(fd);
            if (page != MAP_FAILED)
                shift = page;
        }
    }
    return shift ? *shift : 0;
}

static void add(struct timespec *t, int64_t us)
{
    int64_t ns = t->tv_nsec + us % 1000000 * 1000;
    t->tv_sec += us / 1000000;
    if (ns < 0) {
        ns += 1000000000;
        t->tv_sec--;
    } else if (ns >= 1000000000) {
        ns -= 1000000000;
        t->tv_sec++;
    }
    t->tv_nsec = ns;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int failed = syscall(SYS_clock_gettime, clock, t);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        add(t, shifted_by());
    return failed;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, const struct timespec *restrict until)
{
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!next && !(next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2")))
        next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec real = *until;
    if (real.tv_sec > 1000000000) /* the wall clock: nothing else is that far */
        add(&real, -shifted_by());
    return next(cond, mutex, &real);
}
