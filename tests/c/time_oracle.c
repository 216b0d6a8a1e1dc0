/*
 * What libpcp makes of intervals, time windows and zones.
 *
 * It reads lines of fields separated by tabs, and answers each with one line. A field of one dash is a
 * null pointer. Line breaks within answers are written as "\n".
 *
 *   zone TEXT                                        the reporting zone from here on
 *   interval TEXT                                    "0 SEC NSEC" or "-1 MESSAGE"
 *   window S T A O SEC NSEC SEC NSEC                 "1 START END ORIGIN" or "-1 MESSAGE"
 *   ctime SEC                                        the text of pmCtime
 */
#include <pcp/pmapi.h>
#include <string.h>

static char *field(char **rest)
{
    char *text = strsep(rest, "\t");
    return text == NULL || strcmp(text, "-") == 0 ? NULL : text;
}

static struct timespec instant(char **rest)
{
    struct timespec t;
    t.tv_sec = atoll(field(rest));
    t.tv_nsec = atol(field(rest));
    return t;
}

static void complain(int sts, const char *message)
{
    printf("%d ", sts);
    for (; *message; message++) {
        if (*message == '\n')
            fputs("\\n", stdout);
        else
            putchar(*message);
    }
    putchar('\n');
}

int main(void)
{
    char line[4096];
    while (fgets(line, sizeof(line), stdin)) {
        char *rest = line, *message = "";
        line[strcspn(line, "\n")] = '\0';
        char *what = field(&rest);
        if (strcmp(what, "zone") == 0) {
            printf("%d\n", pmNewZone(strdup(field(&rest))));
        } else if (strcmp(what, "interval") == 0) {
            struct timespec t;
            /* The field itself: a dash is a text here. */
            int sts = pmParseHighResInterval(rest ? rest : "", &t, &message);
            if (sts < 0)
                complain(sts, message);
            else
                printf("%d %lld %ld\n", sts, (long long)t.tv_sec, t.tv_nsec);
        } else if (strcmp(what, "window") == 0) {
            char *from = field(&rest), *to = field(&rest), *align = field(&rest), *offset = field(&rest);
            struct timespec first = instant(&rest), last = instant(&rest), start, end, origin;
            int sts = pmParseHighResTimeWindow(from, to, align, offset, &first, &last, &start, &end, &origin, &message);
            if (sts < 0)
                complain(sts, message);
            else
                printf("%d %lld.%09ld %lld.%09ld %lld.%09ld\n", sts, (long long)start.tv_sec, start.tv_nsec,
                       (long long)end.tv_sec, end.tv_nsec, (long long)origin.tv_sec, origin.tv_nsec);
        } else if (strcmp(what, "ctime") == 0) {
            time_t t = atoll(field(&rest));
            char text[32];
            pmCtime(&t, text);
            complain(0, text);
        } else
            return 1;
        fflush(stdout);
    }
    return 0;
}
