/*
 * Reports the thread and the location of a fault that terminates the process. Such faults are rare, and a log is often
 * the only evidence. The first sentence is also written to a file, from which the next server of the pool reports it.
 */
#include "internal.h"

#include <sys/prctl.h>

#include <execinfo.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#define	BH_FRAMES_MAX	64
/* Time limit for the report, after which the process terminates without it: the fault may have come inside a
 * function that the report needs. */
#define	BH_WORDS_SECONDS	2

/* The longest assertion, with its location. */
#define	BH_WORDS_BYTES_MAX	512

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
#define	BH_FAULT_COUNT	(sizeof (faults) / sizeof (faults[0]))

/* The previous handlers, which run after the report: the runtime's one reports a stack overflow. */
static struct sigaction next[BH_FAULT_COUNT];

/* The file for the reason; -1: none. */
static int reason_fd = -1;
/* Later faults are consequences of the first one. */
static int is_reason_written;

/* One line. Returns whether it is the first reason. */
static int
write_reason(const char *first, const char *second)
{
	char line[2 * BH_WORDS_BYTES_MAX];
	ssize_t written;

	if (__atomic_exchange_n(&is_reason_written, 1, __ATOMIC_SEQ_CST))
		return (0);
	(void) strlcpy(line, first, sizeof (line));
	(void) strlcat(line, second, sizeof (line));
	for (char *end = line; (end = strchr(end, '\n')) != NULL; )
		*end = ' ';
	(void) strlcat(line, "\n", sizeof (line));
	/* Without the file only the log has the reason. */
	written = reason_fd < 0 ? 0 : write(reason_fd, line, strlen(line));
	(void) written;
	return (1);
}

/* The library's failed assertions, and its panics. */
void
libspl_assertf(const char *file, const char *func, int line, const char *format, ...)
{
	void (*fail)(const char *, const char *, int, const char *, ...) =
	    (void (*)(const char *, const char *, int, const char *, ...))
	    bh_library_function("libspl_assertf");
	char text[BH_WORDS_BYTES_MAX], place[BH_WORDS_BYTES_MAX];
	va_list values;

	va_start(values, format);
	(void) vsnprintf(text, sizeof (text), format, values);
	va_end(values);
	(void) snprintf(place, sizeof (place), " (%s:%d, %s)", file, line, func);
	(void) write_reason(text, place);
	fail(file, func, line, "%s", text);
}

static const char *
signal_name(int fault)
{
	switch (fault) {
	case SIGSEGV:
		return ("SIGSEGV in thread ");
	case SIGBUS:
		return ("SIGBUS in thread ");
	case SIGFPE:
		return ("SIGFPE in thread ");
	case SIGILL:
		return ("SIGILL in thread ");
	default:
		return ("SIGABRT in thread ");
	}
}

static void
write_text(const char *words)
{
	/* A failed write to stderr cannot be handled. */
	ssize_t said = write(STDERR_FILENO, words, strlen(words));
	(void) said;
}

static void
report_crash(int fault, siginfo_t *info, void *context)
{
	static void *frames[BH_FRAMES_MAX];
	char thread[16] = "";

	(void) context;
	for (size_t i = 0; i < BH_FAULT_COUNT; i++)
		(void) sigaction(faults[i], &next[i], NULL);
	(void) signal(SIGALRM, SIG_DFL);
	(void) alarm(BH_WORDS_SECONDS);

	(void) prctl(PR_GET_NAME, thread);
	/* The library has reported a failed assertion, with its stack. */
	if (write_reason(signal_name(fault), thread) || fault != SIGABRT) {
		write_text("a fault ends this process; please report it with what follows (thread ");
		write_text(thread);
		write_text("):\n");
		backtrace_symbols_fd(frames, backtrace(frames, BH_FRAMES_MAX),
		    STDERR_FILENO);
	}

	/* A signal sent by a process does not recur by itself. */
	if (info->si_code <= 0) {
		(void) signal(fault, SIG_DFL);
		(void) raise(fault);
	}
}

void
bh_crash_report_prepare(int fd)
{
	struct sigaction action = { .sa_sigaction = report_crash,
	    .sa_flags = SA_SIGINFO | SA_ONSTACK };
	void *frame;

	reason_fd = fd;
	/* The first call loads a library, which is not possible during a fault. */
	(void) backtrace(&frame, 1);
	(void) sigfillset(&action.sa_mask);
	(void) sigdelset(&action.sa_mask, SIGALRM);
	for (size_t i = 0; i < BH_FAULT_COUNT; i++)
		(void) sigaction(faults[i], &action, &next[i]);
}
