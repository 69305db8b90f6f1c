/*
 * A shifted wall clock for the processes of one host of a lab. The kernel has only one for all of them. This library is
 * loaded into each (`ld.so.preload`) and adds the offset in a shared file to every wall-clock time that a process reads
 * from the C library. Monotonic clocks are not affected.
 *
 * The file holds one number: nanoseconds, 64 bits, of this machine's byte order. It changes while processes run, and
 * that is the jump.
 *
 * Linux has namespaces for monotonic clocks, none for the wall clock, and setting the host's own would affect all heads
 * and clients. Corosync, Pacemaker, the agents, the fence agents and the pool's server all use the C library; the drill
 * checks that `date` sees the jump and that the server has this library loaded. libfaketime does as much, under the
 * GPL, and would be loaded into our process.
 *
 * It costs 4 ns of 33 per read of the clock in such a lab. Other labs do not load it. Not affected by a jump:
 * timestamps of files, timerfd, and processes that bypass the C library.
 */
#define	_GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define	OFFSET_FILE	"/run/lab/clock"
#define	NANOSEC		1000000000LL
/* A deadline before this, in seconds, belongs to a clock that counts from the boot of the host. */
#define	WALL_CLOCK_MIN	1000000000L
/* A timed wait re-reads the clock at this interval, because the clock may jump during it. */
#define	LOOK_INTERVAL	(NANOSEC / 5)

static const int64_t no_offset;
static const int64_t *shared_offset = &no_offset;

typedef int gettime_fn(clockid_t, struct timespec *);
typedef int condwait_fn(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
typedef int lock_fn(pthread_mutex_t *, const struct timespec *);
typedef int sem_fn(sem_t *, const struct timespec *);
typedef int sleep_fn(clockid_t, int, const struct timespec *, struct timespec *);

static gettime_fn *real_gettime;
static condwait_fn *real_condwait;
static lock_fn *real_lock;
static sem_fn *real_sem;
static sleep_fn *real_sleep;

/* Resolves the C library's own function once, because the lookup costs more than the call. */
#define	FIND(kept, name)	if ((kept) == NULL) (kept) = dlsym(RTLD_NEXT, (name))

__attribute__((constructor))
static void
map_offset(void)
{
	int saved = errno;
	int file = open(OFFSET_FILE, O_RDONLY | O_CLOEXEC);

	if (file >= 0) {
		void *map = mmap(NULL, sizeof (int64_t), PROT_READ, MAP_SHARED, file, 0);

		if (map != MAP_FAILED)
			shared_offset = map;
		(void) close(file);
	}
	errno = saved;
}

static int64_t
offset_ns(void)
{
	return (__atomic_load_n(shared_offset, __ATOMIC_RELAXED));
}

static void
add(struct timespec *time, int64_t ns)
{
	int64_t sum = time->tv_nsec + ns % NANOSEC;

	time->tv_sec += ns / NANOSEC;
	if (sum < 0) {
		sum += NANOSEC;
		time->tv_sec--;
	} else if (sum >= NANOSEC) {
		sum -= NANOSEC;
		time->tv_sec++;
	}
	time->tv_nsec = sum;
}

static int
is_earlier(const struct timespec *one, const struct timespec *other)
{
	return (one->tv_sec != other->tv_sec ? one->tv_sec < other->tv_sec :
	    one->tv_nsec < other->tv_nsec);
}

static int
is_wall_clock(clockid_t clock)
{
	return (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI);
}

static int
host_time(clockid_t clock, struct timespec *out)
{
	FIND(real_gettime, "clock_gettime");
	return (real_gettime(clock, out));
}

int
clock_gettime(clockid_t clock, struct timespec *out)
{
	int result = host_time(clock, out);

	if (result == 0 && is_wall_clock(clock))
		add(out, offset_ns());
	return (result);
}

int
gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return (-1);
	out->tv_sec = now.tv_sec;
	out->tv_usec = now.tv_nsec / 1000;
	if (zone != NULL)
		*(struct timezone *)zone = (struct timezone) { 0, 0 };
	return (0);
}

time_t
time(time_t *out)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0)
		return (-1);
	if (out != NULL)
		*out = now.tv_sec;
	return (now.tv_sec);
}

int
timespec_get(struct timespec *out, int base)
{
	return (base == TIME_UTC && clock_gettime(CLOCK_REALTIME, out) == 0 ? base : 0);
}

/*
 * Converts a deadline of the shifted clock to the host's clock, limited to the next re-read; deadlines of other clocks
 * are unchanged. Returns whether the deadline itself is later than that.
 */
static int
until(const struct timespec *moment, struct timespec *out)
{
	struct timespec look;

	*out = *moment;
	if (moment->tv_sec < WALL_CLOCK_MIN || host_time(CLOCK_REALTIME, &look) != 0)
		return (0);
	add(out, -offset_ns());
	add(&look, LOOK_INTERVAL);
	if (!is_earlier(&look, out))
		return (0);
	*out = look;
	return (1);
}

/* POSIX allows spurious wake-ups: the caller must check its condition in a loop. */
int
pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
    const struct timespec *restrict moment)
{
	struct timespec end;
	int is_look = until(moment, &end);
	int result;

	FIND(real_condwait, "pthread_cond_timedwait");
	result = real_condwait(condition, mutex, &end);

	return (result == ETIMEDOUT && is_look ? 0 : result);
}

int
pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict moment)
{
	struct timespec end;
	int is_look, result;

	FIND(real_lock, "pthread_mutex_timedlock");
	do {
		is_look = until(moment, &end);
		result = real_lock(mutex, &end);
	} while (result == ETIMEDOUT && is_look);
	return (result);
}

int
sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict moment)
{
	struct timespec end;
	int is_look, result;

	FIND(real_sem, "sem_timedwait");
	do {
		is_look = until(moment, &end);
		result = real_sem(semaphore, &end);
	} while (result != 0 && errno == ETIMEDOUT && is_look);
	return (result);
}

int
clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	struct timespec end;
	int is_look, result;

	FIND(real_sleep, "clock_nanosleep");
	if ((flags & TIMER_ABSTIME) == 0 || !is_wall_clock(clock))
		return (real_sleep(clock, flags, time, left));
	do {
		is_look = until(time, &end);
		result = real_sleep(clock, flags, &end, left);
	} while (result == 0 && is_look);
	return (result);
}
