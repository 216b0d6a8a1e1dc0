/*
 * Opponent for regular expressions on lines: PCRE2 with its JIT, driven by lines on stdin, one line of answer each. Fields are
 * separated by tabs.
 *
 *   PATH PATTERN   getline(3) to the end of the file, each line matched and its groups copied out: lines that match, bytes in
 *                  groups, CPU nanoseconds
 *
 * Built with: cc pcre.c -lpcre2-8 (Debian: libpcre2-dev)
 */
#define _GNU_SOURCE
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char fields[1 << 20];

static long long cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int with_pcre(FILE *file, const char *pattern)
{
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, 0, &error, &at, NULL);
    if (code == NULL || pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) != 0)
        return 0;
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(code, NULL);
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    long count = 0, bytes = 0;
    long long begin = cpu();
    while ((length = getline(&line, &size, file)) > 0) {
        /* the quickest way in: nothing is checked before the compiled code runs */
        int groups = pcre2_jit_match(code, (PCRE2_SPTR)line, length - 1, 0, 0, match, NULL);
        if (groups < 0)
            continue;
        PCRE2_SIZE *places = pcre2_get_ovector_pointer(match);
        size_t used = 0;
        for (int i = 1; i < groups; i++) {
            if (places[2 * i] == PCRE2_UNSET)
                continue;
            size_t part = places[2 * i + 1] - places[2 * i];
            if (used + part < sizeof fields)
                memcpy(fields + used, line + places[2 * i], part);
            used += part;
        }
        count++;
        bytes += used;
    }
    printf("%ld\t%ld\t%lld\n", count, bytes, cpu() - begin);
    free(line);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
    return 1;
}

int main(void)
{
    char *command = NULL;
    size_t command_size = 0;
    while (getline(&command, &command_size, stdin) > 0) {
        command[strcspn(command, "\n")] = 0;
        char *pattern = command, *path = strsep(&pattern, "\t");
        FILE *file = fopen(path, "r");
        if (file == NULL || pattern == NULL || !with_pcre(file, pattern)) {
            puts("oracle: no such file, or a bad pattern");
            return 1;
        }
        fflush(stdout);
        fclose(file);
    }
    return 0;
}
