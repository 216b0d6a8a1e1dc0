/*
 * libpcp's fetch groups as an oracle: one command a line, one line in answer.
 *
 *   create TYPE NAME                                   a group, the current one from now on: its code
 *   item METRIC INSTANCE SCALE TYPE                    a registration: its code
 *   indom METRIC SCALE TYPE MAXNUM
 *   event METRIC INSTANCE FIELD SCALE TYPE MAXNUM
 *   timespec
 *   fetch                                              its code and all outputs, as below
 *   show                                               all outputs
 *   clear | destroy | reconnect                        its code
 *   mode MODE SEC NSEC STEPSEC STEPNSEC                pmSetModeHighRes
 *   derived NAME EXPRESSION                            0 or -1
 *   sleep MILLISECONDS
 *   env NAME VALUE
 *
 * Words are separated by tabs. A text is "=" and itself, or "!" for NULL. Outputs are separated by tabs too:
 *
 *   I STATUS VALUE
 *   D STATUS NUM {INST NAME STATUS VALUE}              all cells up to maxnum
 *   E STATUS NUM {SEC NSEC STATUS VALUE}
 *   T SEC NSEC
 *
 * A value is a decimal number, the bits of a floating point number in hex, or text in hex; "~" is NULL. Statuses hold
 * 99 until they are written.
 */
#define _GNU_SOURCE
#include <pcp/pmapi.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern int pmExtendFetchGroup_timespec(pmFG, struct timespec *);
extern int pmClearFetchGroup(pmFG);

#define UNSET 99

struct request {
    char kind;
    int type, status, status1;
    unsigned int max, num;
    pmAtomValue value, *values;
    int *insts, *statuses;
    char **names;
    struct timespec time, *times;
};

static pmFG group;
static struct request *requests[4096];
static int count;
static char *words[16];

/* In libpcp's place: with errno cleared, so that a number out of range does not spoil those after it. */
int __pmStringValue(const char *string, pmAtomValue *value, int type)
{
    static int (*real)(const char *, pmAtomValue *, int);
    if (real == NULL)
        real = (int (*)(const char *, pmAtomValue *, int))dlsym(RTLD_NEXT, "__pmStringValue");
    errno = 0;
    return real(string, value, type);
}

static void fail(const char *why)
{
    printf("oracle: %s\n", why);
    fflush(stdout);
    exit(1);
}

static char *text(int at)
{
    if (words[at] == NULL)
        fail("a word is missing");
    return words[at][0] == '!' ? NULL : words[at] + 1;
}

static int number(int at)
{
    if (words[at] == NULL)
        fail("a number is missing");
    return atoi(words[at]);
}

static void put_text(const char *s)
{
    if (s == NULL) {
        printf("~");
        return;
    }
    printf("=");
    for (; *s; s++)
        printf("%02x", (unsigned char)*s);
}

static void put_value(int type, const pmAtomValue *v)
{
    switch (type) {
    case PM_TYPE_32: printf("%d", v->l); break;
    case PM_TYPE_U32: printf("%u", v->ul); break;
    case PM_TYPE_64: printf("%lld", (long long)v->ll); break;
    case PM_TYPE_U64: printf("%llu", (unsigned long long)v->ull); break;
    case PM_TYPE_FLOAT: printf("%08x", v->ul); break;
    case PM_TYPE_DOUBLE: printf("%016llx", (unsigned long long)v->ull); break;
    case PM_TYPE_STRING: put_text(v->cp); break;
    default: fail("a value of no type");
    }
}

static void show(void)
{
    for (int i = 0; i < count; i++) {
        struct request *r = requests[i];
        printf("\t%c", r->kind);
        if (r->kind == 'T') {
            printf(" %lld %ld", (long long)r->time.tv_sec, r->time.tv_nsec);
            continue;
        }
        printf(" %d", r->status);
        if (r->kind == 'I') {
            printf(" ");
            put_value(r->type, &r->value);
            continue;
        }
        printf(" %u", r->num);
        for (unsigned int j = 0; j < r->max; j++) {
            if (r->kind == 'D') {
                printf(" {%d ", r->insts[j]);
                put_text(r->names[j]);
            } else
                printf(" {%lld %ld", (long long)r->times[j].tv_sec, r->times[j].tv_nsec);
            printf(" %d ", r->statuses[j]);
            put_value(r->type, &r->values[j]);
            printf("}");
        }
    }
}

static struct request *prepare(char kind, int type, unsigned int max)
{
    struct request *r = calloc(1, sizeof(*r));
    *r = (struct request){ .kind = kind, .type = type, .max = max, .status = UNSET, .num = UNSET };
    r->values = calloc(max + 1, sizeof(pmAtomValue));
    r->insts = calloc(max + 1, sizeof(int));
    r->statuses = calloc(max + 1, sizeof(int));
    r->names = calloc(max + 1, sizeof(char *));
    r->times = calloc(max + 1, sizeof(struct timespec));
    for (unsigned int j = 0; j < max; j++) {
        r->insts[j] = UNSET;
        r->statuses[j] = UNSET;
    }
    return r;
}

static int keep(struct request *r, int sts)
{
    if (sts < 0)
        free(r);
    else if (count == sizeof(requests) / sizeof(requests[0]))
        fail("too many requests");
    else
        requests[count++] = r;
    return sts;
}

static int extend(void)
{
    struct request *r;
    if (strcmp(words[0], "item") == 0) {
        r = prepare('I', number(4), 0);
        return keep(r, pmExtendFetchGroup_item(group, text(1), text(2), text(3), &r->value, r->type, &r->status));
    }
    if (strcmp(words[0], "indom") == 0) {
        r = prepare('D', number(3), number(4));
        return keep(r, pmExtendFetchGroup_indom(group, text(1), text(2), r->insts, r->names, r->values, r->type,
                                                r->statuses, r->max, &r->num, &r->status));
    }
    if (strcmp(words[0], "event") == 0) {
        r = prepare('E', number(5), number(6));
        return keep(r, pmExtendFetchGroup_event(group, text(1), text(2), text(3), text(4), r->times, r->values,
                                                r->type, r->statuses, r->max, &r->num, &r->status));
    }
    r = prepare('T', 0, 0);
    return keep(r, pmExtendFetchGroup_timespec(group, &r->time));
}

static int command(void)
{
    const char *what = words[0];
    if (strcmp(what, "create") == 0) {
        count = 0;
        return pmCreateFetchGroup(&group, number(1), text(2));
    }
    if (strcmp(what, "item") == 0 || strcmp(what, "indom") == 0 || strcmp(what, "event") == 0 ||
        strcmp(what, "timespec") == 0)
        return extend();
    if (strcmp(what, "fetch") == 0)
        return pmFetchGroup(group);
    if (strcmp(what, "show") == 0)
        return 0;
    if (strcmp(what, "clear") == 0) {
        int sts = pmClearFetchGroup(group);
        count = 0;
        return sts;
    }
    if (strcmp(what, "destroy") == 0) {
        count = 0;
        return pmDestroyFetchGroup(group);
    }
    if (strcmp(what, "reconnect") == 0) {
        int sts = pmReconnectContext(pmGetFetchGroupContext(group));
        return sts < 0 ? sts : 0;
    }
    if (strcmp(what, "mode") == 0) {
        struct timespec start = { number(2), number(3) }, step = { number(4), number(5) };
        pmUseContext(pmGetFetchGroupContext(group));
        return pmSetModeHighRes(number(1), number(2) < 0 ? NULL : &start, &step);
    }
    if (strcmp(what, "derived") == 0)
        return pmRegisterDerived(text(1), text(2)) == NULL ? 0 : -1;
    if (strcmp(what, "sleep") == 0)
        return usleep(1000 * number(1));
    if (strcmp(what, "env") == 0)
        return setenv(text(1), text(2), 1);
    fail("unknown command");
    return 0;
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        memset(words, 0, sizeof(words));
        char *rest = line;
        for (int i = 0; i < 15 && rest != NULL; i++)
            words[i] = strsep(&rest, "\t");
        printf("%d", command());
        if (strcmp(words[0], "fetch") == 0 || strcmp(words[0], "show") == 0)
            show();
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
