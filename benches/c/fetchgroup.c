/*
 * libpcp's fetch groups as an opponent: one command a line, one line in answer.
 *
 *   create HOST                 its code
 *   item METRIC INSTANCE        registers a value as a double; its code. The instance may be "-"
 *   fetch N                     CPU time of N fetches, in nanoseconds, and how many outputs of the last one hold values
 *   values                      all outputs of the last fetch
 *
 * Words are separated by blanks, which instances must not contain.
 */
#include <pcp/pmapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_ITEMS 100000

static pmFG group;
static pmAtomValue values[MAX_ITEMS];
static int statuses[MAX_ITEMS];
static int count;

static int fetch(int times)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (int i = 0; i < times; i++) {
        int sts = pmFetchGroup(group);
        if (sts < 0)
            return sts;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    int good = 0;
    for (int i = 0; i < count; i++)
        good += statuses[i] == 0;
    printf("%lld %d\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec, good);
    return 0;
}

int main(void)
{
    char line[4096];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char what[16] = "", metric[2048] = "", instance[2048] = "";
        sscanf(line, "%15s %2047s %2047s", what, metric, instance);
        int sts = -1;
        if (strcmp(what, "create") == 0)
            sts = pmCreateFetchGroup(&group, PM_CONTEXT_HOST, metric);
        else if (strcmp(what, "item") == 0 && count < MAX_ITEMS) {
            sts = pmExtendFetchGroup_item(group, metric, strcmp(instance, "-") == 0 ? NULL : instance, NULL,
                                          &values[count], PM_TYPE_DOUBLE, &statuses[count]);
            count += sts >= 0;
        } else if (strcmp(what, "values") == 0) {
            for (int i = 0; i < count; i++)
                printf("%.17g ", values[i].d);
            printf("\n");
            fflush(stdout);
            continue;
        } else if (strcmp(what, "fetch") == 0) {
            sts = fetch(atoi(metric));
            if (sts == 0) {
                fflush(stdout);
                continue;
            }
        }
        if (sts < 0)
            printf("oracle: %s: %s\n", what, pmErrStr(sts));
        else
            printf("%d\n", sts);
        fflush(stdout);
    }
    return 0;
}
