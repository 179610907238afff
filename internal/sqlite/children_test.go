package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// children are the things that the test binary can do as a process of its own.
var children = map[string]func(args []string) error{
	"open":      childOpen,
	"record":    childRecord,
	"exclusive": childExclusive,
	"request":   childRequest,
	"hold":      childHold,
	"incidents": childIncidents,
	"drills":    childDrills,
	"claims":    childClaims,
	"flip":      childFlip,
}

// childTime is when a child that was forgotten gives up.
const childTime = 2 * time.Minute

// awaitGo says that the child is ready and waits for a line, or for the end.
func awaitGo() {
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
}

// childOpen opens the record as soon as the directory is free, records a change
// of its own pool and closes it again.
func childOpen(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTime)
	defer cancel()
	awaitGo()
	for {
		s, err := Open(ctx, options(args[0]))
		if errors.Is(err, ErrLocked) {
			continue
		}
		if err != nil {
			return err
		}
		c := childChange(args[1], 1)
		return errors.Join(s.Record(ctx, []control.Change{c}, 0), s.Close())
	}
}

// childRecord records changes until it is killed, and says the ID of each that
// was acknowledged.
func childRecord(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTime)
	defer cancel()
	s, err := Open(ctx, options(args[0]))
	if err != nil {
		return err
	}
	for i := 1; ; i++ {
		c := childChange("p", i)
		if err := s.Record(ctx, []control.Change{c}, int64(i)); err != nil {
			return err
		}
		fmt.Println(c.ID)
	}
}

// childChange says in its reason which one it is.
func childChange(pool string, i int) control.Change {
	return control.Change{
		ID: uuid.Must(uuid.NewV7()).String(), Writer: strconv.Itoa(os.Getpid()), At: time.Now(), Pool: pool, Action: control.ToMode,
		To: admission.Modes()[i%3], Via: control.ViaAPI, Reason: strconv.Itoa(i),
	}
}

// childExclusive holds the database file so that nobody else can write.
func childExclusive(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTime)
	defer cancel()
	db, err := open(ctx, fileName(filepath.Join(args[0], databaseName), writing), writing, 1)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		return err
	}
	awaitGo()
	_, err = conn.ExecContext(ctx, "ROLLBACK")
	return errors.Join(err, conn.Close(), db.Close())
}

// childRequest leaves so many requests, and says their numbers.
func childRequest(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTime)
	defer cancel()
	awaitGo()
	for range 20 {
		n, err := LeaveRequest(ctx, args[0], control.Order{Action: control.Rollback, Actor: "child"})
		if err != nil {
			return err
		}
		fmt.Println(n)
	}
	return nil
}

// childHold holds the data directory.
func childHold(args []string) error {
	o := options(args[0])
	o.Listen = "127.0.0.1:8485"
	s, err := Open(context.Background(), o)
	if err != nil {
		return err
	}
	awaitGo()
	return s.Close()
}
