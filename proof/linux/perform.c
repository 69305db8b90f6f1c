/*
 * perform DIRECTORY: performs changes of files, a line each, in the commands of the example of proof/files:
 * `FILE-SYSTEM COMMAND PATH ...`. The file system is a directory below DIRECTORY. Exits at the first failure.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define	WORDS_MAX	8
#define	TOKEN_BYTES	16

static char *word[WORDS_MAX];
static int held;

static int
digit(char c)
{
	return (c <= '9' ? c - '0' : c - 'A' + 10);
}

/* Resolves %XX in place. */
static char *
decoded(char *text)
{
	char *to = text;

	for (char *from = text; *from != '\0'; from++) {
		if (*from == '%' && from[1] != '\0' && from[2] != '\0') {
			*to++ = (char)(digit(from[1]) << 4 | digit(from[2]));
			from += 2;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
	return (text);
}

/* Paths begin with the slash of the file system. */
static char *
path(int number)
{
	char *text = decoded(word[number]);

	return (text[1] == '\0' ? "." : text + 1);
}

static long long
number(int index)
{
	return (strtoll(word[index], NULL, 10));
}

static mode_t
mode(int index)
{
	return ((mode_t)strtoul(word[index], NULL, 8));
}

static int
with_file(const char *name, int flags, int (*action)(int))
{
	int file = open(name, flags, 0600);

	if (file < 0)
		return (-1);
	int error = action(file);
	if (close(file) != 0)
		return (-1);
	return (error);
}

static int
nothing(int file)
{
	(void) file;
	return (0);
}

static int
write_token(int file)
{
	long long offset = number(3), length = number(4);
	char *bytes = malloc((size_t)length);

	for (long long i = 0; i < length; i++)
		bytes[i] = word[5][(offset + i) % TOKEN_BYTES];
	for (long long done = 0; done < length; ) {
		ssize_t wrote = pwrite(file, bytes + done,
		    (size_t)(length - done), (off_t)(offset + done));
		if (wrote < 0)
			return (-1);
		done += wrote;
	}
	free(bytes);
	return (0);
}

/* Its blocks become those of another file. */
static int
clone(int file)
{
	int from = open(path(3), O_RDONLY);

	if (from < 0)
		return (-1);
	int error = ioctl(file, FICLONE, from);
	return (close(from) != 0 ? -1 : error);
}

static int
punch(int file)
{
	return (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	    (off_t)number(3), (off_t)number(4)));
}

/*
 * A project, and whether new entries of a directory inherit it. Up to version 2.3 OpenZFS expects for that flag the
 * number that other calls have for it, like zfs-project(8).
 */
static int
set_project(int file)
{
	struct fsxattr attributes = { .fsx_projid = (unsigned)number(3) };

	if (number(4) != 0)
		attributes.fsx_xflags = FS_PROJINHERIT_FL;
	if (ioctl(file, FS_IOC_FSSETXATTR, &attributes) == 0)
		return (0);
	attributes.fsx_xflags = FS_XFLAG_PROJINHERIT;
	return (errno == EOPNOTSUPP && number(4) != 0 ?
	    ioctl(file, FS_IOC_FSSETXATTR, &attributes) : -1);
}

static int
make(void)
{
	const char *kind = word[2], *name = path(3);
	unsigned major = 0, minor = 0;
	int error;

	if (strcmp(kind, "link") == 0)
		error = symlink(decoded(word[7]), name);
	else if (strcmp(kind, "directory") == 0)
		error = mkdir(name, mode(4));
	else if (strcmp(kind, "file") == 0)
		error = with_file(name, O_CREAT | O_EXCL | O_WRONLY, nothing);
	else {
		mode_t type = strcmp(kind, "block") == 0 ? S_IFBLK :
		    strcmp(kind, "character") == 0 ? S_IFCHR :
		    strcmp(kind, "socket") == 0 ? S_IFSOCK : S_IFIFO;
		if (word[7] != NULL && sscanf(decoded(word[7]), "%u:%u", &major, &minor) != 2)
			return (-1);
		error = mknod(name, type | 0600, makedev(major, minor));
	}
	if (error == 0)
		error = lchown(name, (uid_t)number(5), (gid_t)number(6));
	/* A directory retains the bit that it inherited from its parent. */
	if (error == 0 && strcmp(kind, "link") != 0 && strcmp(kind, "directory") != 0)
		error = chmod(name, mode(4));
	return (error);
}

static struct timespec
nanoseconds(int index)
{
	long long all = number(index), second = 1000000000;
	long long rest = ((all % second) + second) % second;

	return ((struct timespec) {
	    .tv_sec = (all - rest) / second, .tv_nsec = rest });
}

static int
set_times(void)
{
	struct timespec times[] = { nanoseconds(3), nanoseconds(4) };

	return (utimensat(AT_FDCWD, path(2), times, AT_SYMLINK_NOFOLLOW));
}

/* All earlier changes of the file system are durable. */
static int
commit(void)
{
	return (with_file(".", O_RDONLY | O_DIRECTORY, syncfs));
}

static int
perform(void)
{
	const char *what = word[1];

	if (strcmp(what, "make") == 0)
		return (make());
	if (strcmp(what, "write") == 0)
		return (with_file(path(2), O_WRONLY, write_token));
	if (strcmp(what, "punch") == 0)
		return (with_file(path(2), O_WRONLY, punch));
	if (strcmp(what, "clone") == 0)
		return (with_file(path(2), O_WRONLY, clone));
	if (strcmp(what, "project") == 0)
		return (with_file(path(2), O_RDONLY, set_project));
	if (strcmp(what, "hold") == 0) {
		held++;
		return (open(path(2), O_RDONLY) < 0 ? -1 : 0);
	}
	if (strcmp(what, "size") == 0)
		return (truncate(path(2), (off_t)number(3)));
	if (strcmp(what, "mode") == 0)
		return (chmod(path(2), mode(3)));
	if (strcmp(what, "owner") == 0)
		return (lchown(path(2), (uid_t)number(3), (gid_t)number(4)));
	if (strcmp(what, "times") == 0)
		return (set_times());
	if (strcmp(what, "rename") == 0)
		return (rename(path(2), path(3)));
	if (strcmp(what, "exchange") == 0)
		return (renameat2(AT_FDCWD, path(2), AT_FDCWD, path(3),
		    RENAME_EXCHANGE));
	if (strcmp(what, "link") == 0)
		return (link(path(2), path(3)));
	if (strcmp(what, "remove") == 0)
		return (unlink(path(2)));
	if (strcmp(what, "remove-directory") == 0)
		return (rmdir(path(2)));
	if (strcmp(what, "commit") == 0)
		return (commit());
	errno = EINVAL;
	return (-1);
}

int
main(int count, char **words)
{
	char *line = NULL;
	size_t room = 0;
	int folder = count == 2 ? open(words[1], O_PATH | O_DIRECTORY) : -1;

	if (folder < 0)
		return (2);
	(void) umask(0);
	for (int at = 1; getline(&line, &room, stdin) > 0; at++) {
		char *rest = line;

		for (int i = 0; i < WORDS_MAX; i++)
			word[i] = strtok_r(i == 0 ? line : NULL, " \n", &rest);
		if (fchdir(folder) != 0 || chdir(word[0]) != 0 || perform() != 0) {
			(void) fprintf(stderr, "line %d, %s %s %s: %m\n", at,
			    word[0], word[1], word[2] == NULL ? "" : word[2]);
			return (1);
		}
	}
	/* Held files stay open until the power fails. */
	if (held != 0 && fork() == 0) {
		(void) setsid();
		for (int file = 0; file <= 2; file++)
			(void) close(file);
		for (;;)
			(void) pause();
	}
	return (0);
}
