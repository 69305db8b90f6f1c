/* rename exchange|whiteout FROM TO: renames that mv of the guest's coreutils does not support. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

int
main(int count, char **words)
{
	if (count != 4)
		return (2);
	unsigned how = strcmp(words[1], "exchange") == 0 ? RENAME_EXCHANGE :
	    RENAME_WHITEOUT;
	if (renameat2(AT_FDCWD, words[2], AT_FDCWD, words[3], how) != 0) {
		perror(words[1]);
		return (1);
	}
	return (0);
}
