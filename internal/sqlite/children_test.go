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

// childModes are the operations that the test binary can run as a child process.
var childModes = map[string]func(args []string) error{
	"open":      childOpen,
	"record":    childRecord,
	"exclusive": childExclusive,
	"request":   childRequest,
	"hold":      childLockDatabase,
	"incidents": childIncidents,
	"drills":    childDrills,
	"claims":    childClaims,
	"flip":      childRollback,
}

// childTimeout is when a child that was forgotten gives up.
const childTimeout = 2 * time.Minute

// awaitStartSignal says that the child is ready and waits for a line, or for the end.
func awaitStartSignal() {
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
}

// childOpen opens the record as soon as the directory is free, records a change
// for its pool and closes it again.
func childOpen(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTimeout)
	defer cancel()
	awaitStartSignal()
	for {
		s, err := Open(ctx, testOptions(args[0]))
		if errors.Is(err, ErrLocked) {
			continue
		}
		if err != nil {
			return err
		}
		c := childChange(args[1], 1)
		return errors.Join(s.RecordChanges(ctx, []control.ModeChange{c}, 0), s.Close())
	}
}

// childRecord records changes until it is killed, and says the ID of each that
// was acknowledged.
func childRecord(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTimeout)
	defer cancel()
	s, err := Open(ctx, testOptions(args[0]))
	if err != nil {
		return err
	}
	for i := 1; ; i++ {
		c := childChange("p", i)
		if err := s.RecordChanges(ctx, []control.ModeChange{c}, int64(i)); err != nil {
			return err
		}
		fmt.Println(c.ID)
	}
}

// childChange says in its reason which one it is.
func childChange(pool string, i int) control.ModeChange {
	return control.ModeChange{
		ID: uuid.Must(uuid.NewV7()).String(), Writer: strconv.Itoa(os.Getpid()), At: time.Now(), Pool: pool, Action: control.SetMode,
		To: admission.Modes()[i%3], Via: control.ViaAPI, Reason: strconv.Itoa(i),
	}
}

// childExclusive holds the database file so that no other process can write.
func childExclusive(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTimeout)
	defer cancel()
	db, err := openDB(ctx, fileDSN(filepath.Join(args[0], databaseName), accessWrite), accessWrite, 1)
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
	awaitStartSignal()
	_, err = conn.ExecContext(ctx, "ROLLBACK")
	return errors.Join(err, conn.Close(), db.Close())
}

// childRequest leaves so many requests, and says their numbers.
func childRequest(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTimeout)
	defer cancel()
	awaitStartSignal()
	for range 20 {
		n, err := QueueRequest(ctx, args[0], control.ModeRequest{Action: control.Rollback, Actor: "child"})
		if err != nil {
			return err
		}
		fmt.Println(n)
	}
	return nil
}

// childLockDatabase holds the data directory.
func childLockDatabase(args []string) error {
	o := testOptions(args[0])
	o.Listen = "127.0.0.1:8485"
	s, err := Open(context.Background(), o)
	if err != nil {
		return err
	}
	awaitStartSignal()
	return s.Close()
}
