/*
 * Opponent for files: what a log agent in C does with the same lines, driven by lines on stdin, one line of
 * answer each. Fields are separated by tabs.
 *
 *   lines PATH            getline(3) to the end of the file: CPU nanoseconds
 *   regexec PATH PATTERN  the same, each line through regexec(3) with its groups copied out: CPU nanoseconds
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

static long long cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void)
{
    static char fields[1 << 20];
    char *command = NULL, *line = NULL;
    size_t command_size = 0, line_size = 0;
    while (getline(&command, &command_size, stdin) > 0) {
        command[strcspn(command, "\n")] = 0;
        char *rest = command, *what = strsep(&rest, "\t"), *path = strsep(&rest, "\t");
        regex_t regex;
        int match = strcmp(what, "regexec") == 0;
        if (match && (rest == NULL || regcomp(&regex, rest, REG_EXTENDED) != 0)) {
            puts("oracle: bad pattern");
            return 1;
        }
        FILE *file = path ? fopen(path, "r") : NULL;
        if (file == NULL) {
            puts("oracle: no such file");
            return 1;
        }
        long long begin = cpu();
        long count = 0;
        ssize_t length;
        while ((length = getline(&line, &line_size, file)) > 0) {
            regmatch_t groups[GROUPS];
            if (!match) {
                count++;
                continue;
            }
            line[length - 1] = 0;
            if (regexec(&regex, line, GROUPS, groups, 0) != 0)
                continue;
            size_t used = 0;
            for (int i = 1; i < GROUPS && groups[i].rm_so >= 0; i++) {
                size_t size = groups[i].rm_eo - groups[i].rm_so;
                if (used + size < sizeof fields)
                    memcpy(fields + used, line + groups[i].rm_so, size);
                used += size;
            }
            count++;
        }
        printf("%ld\t%lld\n", count, cpu() - begin);
        fflush(stdout);
        fclose(file);
        if (match)
            regfree(&regex);
    }
    return 0;
}
