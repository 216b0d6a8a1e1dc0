/*
 * Opponent of benches/event_array.rs: libpcp_pmda building an array of event records, each with the four
 * parameters u64, i32, f64 and a string of 24 bytes.
 *
 * Each line "E RECORDS" or "H RECORDS" on stdin builds one array in a buffer that is used again, and answers
 * with the nanoseconds it took and the array's length. Built with: cc -O2 event_array.c -lpcp_pmda -lpcp
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <pcp/pmapi.h>
#include <pcp/pmda.h>

static const char text[] = "GET /api/v1/items/000042";

static void check(int sts)
{
    if (sts < 0) {
        printf("oracle: %s\n", pmErrStr(sts));
        exit(1);
    }
}

static size_t event(int array, int records)
{
    check(pmdaEventResetArray(array));
    for (int i = 0; i < records; i++) {
        struct timeval stamp = { .tv_sec = 1700000000 + i, .tv_usec = i };
        pmAtomValue atom;
        check(pmdaEventAddRecord(array, &stamp, PM_EVENT_FLAG_POINT));
        atom.ull = i;
        check(pmdaEventAddParam(array, pmID_build(400, 16, 1), PM_TYPE_U64, &atom));
        atom.l = -i;
        check(pmdaEventAddParam(array, pmID_build(400, 16, 2), PM_TYPE_32, &atom));
        atom.d = i * 0.5;
        check(pmdaEventAddParam(array, pmID_build(400, 16, 3), PM_TYPE_DOUBLE, &atom));
        atom.cp = (char *)text;
        check(pmdaEventAddParam(array, pmID_build(400, 16, 4), PM_TYPE_STRING, &atom));
    }
    return pmdaEventGetAddr(array)->ea_len;
}

static size_t highres(int array, int records)
{
    check(pmdaEventResetHighResArray(array));
    for (int i = 0; i < records; i++) {
        struct timespec stamp = { .tv_sec = 1700000000 + i, .tv_nsec = i };
        pmAtomValue atom;
        check(pmdaEventAddHighResRecord(array, &stamp, PM_EVENT_FLAG_POINT));
        atom.ull = i;
        check(pmdaEventAddHighResParam(array, pmID_build(400, 16, 1), PM_TYPE_U64, &atom));
        atom.l = -i;
        check(pmdaEventAddHighResParam(array, pmID_build(400, 16, 2), PM_TYPE_32, &atom));
        atom.d = i * 0.5;
        check(pmdaEventAddHighResParam(array, pmID_build(400, 16, 3), PM_TYPE_DOUBLE, &atom));
        atom.cp = (char *)text;
        check(pmdaEventAddHighResParam(array, pmID_build(400, 16, 4), PM_TYPE_STRING, &atom));
    }
    return pmdaEventGetHighResAddr(array)->ea_len;
}

int main(void)
{
    int low = pmdaEventNewArray(), high = pmdaEventNewHighResArray(), records;
    char kind;

    check(low);
    check(high);
    while (scanf(" %c %d", &kind, &records) == 2) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        size_t len = kind == 'H' ? highres(high, records) : event(low, records);
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%lld %zu\n", (end.tv_sec - start.tv_sec) * 1000000000LL + end.tv_nsec - start.tv_nsec, len);
        fflush(stdout);
    }
    return 0;
}
