/*
 * What a process says that ends by a fault: in which thread and where.  Such ends are rare, and a log is
 * often all that is left of them.
 */
#include "internal.h"

#include <sys/prctl.h>

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#define	BH_FRAMES_MAX	64
/* For the words.  Then the process ends without them: the fault may have come inside what they need. */
#define	BH_WORDS_SECONDS	2

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
#define	BH_FAULT_COUNT	(sizeof (faults) / sizeof (faults[0]))

/* What comes after the words: the runtime tells of a stack that is too small. */
static struct sigaction next[BH_FAULT_COUNT];

static void
say(const char *words)
{
	/* Where it cannot be said, nothing can be done about that either. */
	ssize_t said = write(STDERR_FILENO, words, strlen(words));
	(void) said;
}

static void
speak(int fault, siginfo_t *info, void *context)
{
	static void *frames[BH_FRAMES_MAX];
	char thread[16] = "";

	(void) context;
	for (size_t i = 0; i < BH_FAULT_COUNT; i++)
		(void) sigaction(faults[i], &next[i], NULL);
	(void) signal(SIGALRM, SIG_DFL);
	(void) alarm(BH_WORDS_SECONDS);

	(void) prctl(PR_GET_NAME, thread);
	say("a fault ends this process; please report it with what follows (thread ");
	say(thread);
	say("):\n");
	backtrace_symbols_fd(frames, backtrace(frames, BH_FRAMES_MAX),
	    STDERR_FILENO);

	/* Somebody sent it: it does not come again by itself. */
	if (info->si_code <= 0) {
		(void) signal(fault, SIG_DFL);
		(void) raise(fault);
	}
}

void
bh_last_words_prepare(void)
{
	struct sigaction action = { .sa_sigaction = speak,
	    .sa_flags = SA_SIGINFO | SA_ONSTACK };
	void *frame;

	/* The first call loads a library, which a fault leaves no time for. */
	(void) backtrace(&frame, 1);
	(void) sigfillset(&action.sa_mask);
	(void) sigdelset(&action.sa_mask, SIGALRM);
	for (size_t i = 0; i < BH_FAULT_COUNT; i++)
		(void) sigaction(faults[i], &action, &next[i]);
}
