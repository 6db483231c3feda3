/*
 * What a process asks of the disk below one folder: noted in order, for tools/kill_test.py, and cut short on request.
 *
 * Loaded with LD_PRELOAD. crash_begin(folder, log, at) starts: each creation, write, fsync, rename, removal and new folder
 * below `folder` is written to `log`, and the one with number `at` (from 1; 0: none) ends the process with SIGKILL, a
 * write after half of its bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX];
static int log_fd = -1;
static long number, last;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void crash_begin(const char *path, int fd, long at)
{
	snprintf(folder, sizeof(folder), "%s", path);
	log_fd = fd;
	number = 0;
	last = at;
}

/* Whether an absolute path is below the folder, or the folder itself. */
static int is_ours(const char *path)
{
	size_t n = strlen(folder);

	return log_fd >= 0 && n && !strncmp(path, folder, n) && (path[n] == '/' || !path[n]);
}

static int absolute(const char *path, char *out)
{
	char here[PATH_MAX];

	if (path[0] == '/')
		return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
	return getcwd(here, sizeof(here)) && snprintf(out, PATH_MAX, "%s/%s", here, path) < PATH_MAX;
}

static int path_of(int fd, char *out)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, PATH_MAX - 1);
	if (n < 0)
		return 0;
	out[n] = 0;
	return 1;
}

static void put(const void *data, size_t size)
{
	const char *bytes = data;

	while (size) {
		ssize_t n = REAL(write)(log_fd, bytes, size);

		if (n <= 0)
			abort();
		bytes += n;
		size -= n;
	}
}

/* A record: kind, lengths of three parts, parts. Not 0 if the process is to end in this operation. */
static int note(char kind, const char *path, const char *other, const void *data, size_t size)
{
	char head[64];
	int n = snprintf(head, sizeof(head), "%c %zu %zu %zu\n", kind, strlen(path), strlen(other), size);
	int ends;

	pthread_mutex_lock(&mutex);
	ends = ++number == last;
	if (!ends) {
		put(head, n);
		put(path, strlen(path));
		put(other, strlen(other));
		put(data, size);
	}
	pthread_mutex_unlock(&mutex);
	return ends;
}

static void end(void)
{
	kill(getpid(), SIGKILL);
	pause();
}

static void note_open(const char *path, int flags)
{
	char full[PATH_MAX];

	if (log_fd >= 0 && flags & (O_CREAT | O_TRUNC) && absolute(path, full) && is_ours(full) &&
	    note(access(full, F_OK) ? 'c' : flags & O_TRUNC ? 't' : 'o', full, "", "", 0))
		end();
}

#define OPEN(name)                                                                                                     \
	int name(const char *path, int flags, ...)                                                                     \
	{                                                                                                              \
		va_list more;                                                                                          \
		mode_t mode;                                                                                           \
                                                                                                                       \
		va_start(more, flags);                                                                                 \
		mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                                       \
		va_end(more);                                                                                          \
		note_open(path, flags);                                                                                \
		return REAL(name)(path, flags, mode);                                                                  \
	}
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *data, size_t size)
{
	char path[PATH_MAX];

	if (log_fd >= 0 && fd != log_fd && fd > 2 && path_of(fd, path) && is_ours(path) &&
	    note('w', path, "", data, size)) {
		REAL(write)(fd, data, size / 2);
		end();
	}
	return REAL(write)(fd, data, size);
}

int fsync(int fd)
{
	char path[PATH_MAX];

	if (log_fd >= 0 && path_of(fd, path) && is_ours(path) && note('s', path, "", "", 0))
		end();
	return REAL(fsync)(fd);
}

int rename(const char *from, const char *to)
{
	char a[PATH_MAX], b[PATH_MAX];

	if (log_fd >= 0 && absolute(from, a) && absolute(to, b) && is_ours(b) && note('r', a, b, "", 0))
		end();
	return REAL(rename)(from, to);
}

int unlink(const char *path)
{
	char full[PATH_MAX];

	if (log_fd >= 0 && absolute(path, full) && is_ours(full) && !access(full, F_OK) && note('u', full, "", "", 0))
		end();
	return REAL(unlink)(path);
}

int mkdir(const char *path, mode_t mode)
{
	char full[PATH_MAX];

	if (log_fd >= 0 && absolute(path, full) && is_ours(full) && access(full, F_OK) && note('d', full, "", "", 0))
		end();
	return REAL(mkdir)(path, mode);
}
