/*
 * Opponent for files: what a log agent in C does with the same lines, driven by lines on stdin, one line of
 * answer each. Fields are separated by tabs.
 *
 *   lines PATH            getline(3) to the end of the file: lines, 0, CPU nanoseconds
 *   regexec PATH PATTERN  the same, each line through regexec(3) with its groups copied out: lines that match, bytes in
 *                         groups, CPU nanoseconds
 *
 * Built with: cc follow.c
 */
#define _GNU_SOURCE
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GROUPS = 16 };

static char fields[1 << 20];

static long long cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void answer(long count, long bytes, long long begin)
{
    printf("%ld\t%ld\t%lld\n", count, bytes, cpu() - begin);
}

static void lines(FILE *file)
{
    char *line = NULL;
    size_t size = 0;
    long count = 0;
    long long begin = cpu();
    while (getline(&line, &size, file) > 0)
        count++;
    answer(count, 0, begin);
    free(line);
}

static int with_regexec(FILE *file, const char *pattern)
{
    regex_t regex;
    if (regcomp(&regex, pattern, REG_EXTENDED) != 0)
        return 0;
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    long count = 0, bytes = 0;
    long long begin = cpu();
    while ((length = getline(&line, &size, file)) > 0) {
        regmatch_t groups[GROUPS];
        line[length - 1] = 0;
        if (regexec(&regex, line, GROUPS, groups, 0) != 0)
            continue;
        size_t used = 0;
        for (size_t i = 1; i <= regex.re_nsub && i < GROUPS; i++) {
            if (groups[i].rm_so < 0)
                continue;
            size_t part = groups[i].rm_eo - groups[i].rm_so;
            if (used + part < sizeof fields)
                memcpy(fields + used, line + groups[i].rm_so, part);
            used += part;
        }
        count++;
        bytes += used;
    }
    answer(count, bytes, begin);
    free(line);
    regfree(&regex);
    return 1;
}

int main(void)
{
    char *command = NULL;
    size_t command_size = 0;
    while (getline(&command, &command_size, stdin) > 0) {
        command[strcspn(command, "\n")] = 0;
        char *rest = command, *what = strsep(&rest, "\t"), *path = strsep(&rest, "\t");
        FILE *file = path ? fopen(path, "r") : NULL;
        if (file == NULL) {
            puts("oracle: no such file");
            return 1;
        }
        if (strcmp(what, "lines") == 0) {
            lines(file);
        } else if (rest == NULL || !with_regexec(file, rest)) {
            puts("oracle: bad pattern");
            return 1;
        }
        fflush(stdout);
        fclose(file);
    }
    return 0;
}
