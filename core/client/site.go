package client

import (
	"context"
	"errors"

	"prosody/core/observe"
	"prosody/core/observe/metric"
	"prosody/core/observe/page"
)

// site is the server of the probe port and what it shows.
type site struct {
	metrics *metric.Page
	probe   *observe.Probe
}

// loopback is where the server of mock mode is reached.
const loopback = "127.0.0.1"

// open starts the server of the probe port.
func (c *Client) open() (*site, error) {
	metrics, err := metric.NewPage(c.Facts)
	if err != nil {
		return nil, err
	}
	made := &site{metrics: metrics}
	host := ""
	if c.plan.config.Mock {
		host = loopback
	}
	shows := observe.Site{Health: c, Metrics: metrics}
	if c.plan.config.StatusPage {
		shows.Page = page.New(c.Status)
	}
	made.probe, err = observe.Listen(host, c.plan.config.ProbePort, shows, c.target("prosody.probe"))
	if err != nil {
		return nil, errors.Join(err, made.close())
	}
	return made, nil
}

func (s *site) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), closeBudget)
	defer cancel()
	if s.probe != nil {
		err = s.probe.Close(ctx)
	}
	return errors.Join(err, s.metrics.Close(ctx))
}
