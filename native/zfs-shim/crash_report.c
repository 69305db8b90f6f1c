/*
 * Reports the thread and the location of a fault that terminates the process. Such faults are rare, and a log is often
 * the only evidence.
 */
#include "internal.h"

#include <sys/prctl.h>

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#define	BH_FRAMES_MAX	64
/* Time limit for the report, after which the process terminates without it: the fault may have come inside a
 * function that the report needs. */
#define	BH_WORDS_SECONDS	2

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
#define	BH_FAULT_COUNT	(sizeof (faults) / sizeof (faults[0]))

/* The previous handlers, which run after the report: the runtime's one reports a stack overflow. */
static struct sigaction next[BH_FAULT_COUNT];

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
	write_text("a fault ends this process; please report it with what follows (thread ");
	write_text(thread);
	write_text("):\n");
	backtrace_symbols_fd(frames, backtrace(frames, BH_FRAMES_MAX),
	    STDERR_FILENO);

	/* A signal sent by a process does not recur by itself. */
	if (info->si_code <= 0) {
		(void) signal(fault, SIG_DFL);
		(void) raise(fault);
	}
}

void
bh_crash_report_prepare(void)
{
	struct sigaction action = { .sa_sigaction = report_crash,
	    .sa_flags = SA_SIGINFO | SA_ONSTACK };
	void *frame;

	/* The first call loads a library, which is not possible during a fault. */
	(void) backtrace(&frame, 1);
	(void) sigfillset(&action.sa_mask);
	(void) sigdelset(&action.sa_mask, SIGALRM);
	for (size_t i = 0; i < BH_FAULT_COUNT; i++)
		(void) sigaction(faults[i], &action, &next[i]);
}
